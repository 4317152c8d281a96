#!/bin/sh
# Makes the root folder of the image: what the binary needs to run, and nothing else. deploy/Dockerfile calls it, and so does
# the test that runs the gateway in such a folder.
#   deploy/image-root.sh target/release/diglot FOLDER
set -eu

binary=$1
root=$2
authorities=/etc/ssl/certs/ca-certificates.crt

mkdir -p "$root/usr/bin" "$root/etc/diglot" "$root/etc/ssl/certs" "$root/run/diglot"
install -m 0755 "$binary" "$root/usr/bin/diglot"

# Its libraries and their loader, at the paths where it looks for them: `name => path (address)`, or `path (address)`.
libraries=$(ldd "$binary" | sed -nE 's/^\t([^ ]+ => )?(\/[^ ]+) .*/\2/p')
[ -n "$libraries" ] || { echo "image-root: ldd says nothing about $binary" >&2; exit 1; }
for library in $libraries; do
    mkdir -p "$root$(dirname "$library")"
    install -m 0755 "$library" "$root$library"
done

# How names are looked up: glibc has these two built in, and its default asks the network first.
echo 'hosts: files dns' > "$root/etc/nsswitch.conf"
# Whom agents and issuers are believed by.
[ -s "$authorities" ] || { echo "image-root: $authorities is missing; install ca-certificates" >&2; exit 1; }
install -m 0644 "$authorities" "$root$authorities"
# `run_dir`, whichever user the container is given; the sockets in it are that user's alone.
chmod 1777 "$root/run/diglot"
