"""What objects are: views, commands, names, quantities, tables of words; imports nothing else."""
