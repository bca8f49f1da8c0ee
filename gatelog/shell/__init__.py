"""What every command needs: options, the state directory, errors as sentences, how it ends."""
