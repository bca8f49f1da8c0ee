#!/bin/sh
# Makes the passwords and keys that docker-compose.yml and the kustomize base expect, once:
#
#   sh deploy/secrets.sh [DIRECTORY] [DATABASE_HOST] [CLUSTER...]
#
# DIRECTORY is .gatelog/secrets unless given (never below deploy/, which goes into the wheel),
# DATABASE_HOST is postgres unless given. CLUSTER are the names of all clusters that share the log
# server (setting `cluster`): those given last, else default. Passwords and keys that exist are left
# alone; passwords.conf is made of them each time. It needs openssl 1.1.1 or newer. The directory is
# closed to others; the files in it are readable, because compose mounts them as they are into
# containers that run as another user.
set -eu
directory=${1:-.gatelog/secrets}
host=${2:-postgres}
umask 077
mkdir -p "$directory"
chmod 0700 "$directory"
if [ $# -gt 2 ]; then
    shift 2
    printf '%s\n' "$@" >"$directory/clusters"
fi
[ -s "$directory/clusters" ] || echo default >"$directory/clusters"
if grep -qv '^[A-Za-z0-9_-]\{1,63\}$' "$directory/clusters"; then
    echo "secrets.sh: $directory/clusters: a cluster has 1 to 63 letters, digits, - or _" >&2
    exit 1
fi

for name in streams ingest projector actuator operator logreader postgres reader; do
    [ -s "$directory/$name" ] || od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$directory/$name"
done
# Made anew each time: an older one lacks the users that came later.
for name in streams ingest projector actuator operator logreader; do
    printf '%s_password: "%s"\n' "$name" "$(cat "$directory/$name")"
done >"$directory/passwords.conf"
{
    # What only actuators may do with their consumer. Its name is one word to NATS: each is named.
    echo "actuators_consumers: ["
    while read -r cluster; do
        printf '  "$JS.API.CONSUMER.CREATE.*.actuator-%s"\n' "$cluster"
        printf '  "$JS.API.CONSUMER.CREATE.*.actuator-%s.>"\n' "$cluster"
        printf '  "$JS.API.CONSUMER.MSG.NEXT.*.actuator-%s"\n' "$cluster"
        printf '  "$JS.API.CONSUMER.DELETE.*.actuator-%s"\n' "$cluster"
    done <"$directory/clusters"
    echo "]"
} >>"$directory/passwords.conf"
# The projector signs decisions, actuators check them. To change the key: docs/upgrade.md.
if [ ! -s "$directory/decision-key.pem" ]; then
    openssl genpkey -algorithm ed25519 -out "$directory/decision-key.pem"
fi
if [ ! -s "$directory/decision-keys.pem" ]; then
    openssl pkey -in "$directory/decision-key.pem" -pubout -out "$directory/decision-keys.pem"
fi
if [ ! -s "$directory/pg_service.conf" ]; then
    printf '[gatelog]\nhost=%s\ndbname=gatelog\nuser=gatelog\npassword=%s\n' \
        "$host" "$(cat "$directory/postgres")" >"$directory/pg_service.conf"
fi
# serve reads with a role of its own: CREATE ROLE gatelog_reader LOGIN with the password in `reader`.
if [ ! -s "$directory/pg_service_reader.conf" ]; then
    printf '[gatelog]\nhost=%s\ndbname=gatelog\nuser=gatelog_reader\npassword=%s\n' \
        "$host" "$(cat "$directory/reader")" >"$directory/pg_service_reader.conf"
fi
chmod 0644 "$directory"/*
echo "secrets are in $directory"
