#!/bin/sh
# Creates the root folder of the image with only the files that the binary needs to run. deploy/Dockerfile calls it, and so does
# the test that runs the gateway in such a folder.
#   deploy/image-root.sh target/release/diglot FOLDER
set -eu

binary=$1
root=$2
authorities=/etc/ssl/certs/ca-certificates.crt

mkdir -p "$root/usr/bin" "$root/etc/diglot" "$root/etc/ssl/certs" "$root/run/diglot"
install -m 0755 "$binary" "$root/usr/bin/diglot"

# The binary's libraries and their loader, at the paths from which they are loaded. ldd prints `name => path (address)`, or
# `path (address)`.
libraries=$(ldd "$binary" | sed -nE 's/^\t([^ ]+ => )?(\/[^ ]+) .*/\2/p')
[ -n "$libraries" ] || { echo "image-root: ldd says nothing about $binary" >&2; exit 1; }
for library in $libraries; do
    mkdir -p "$root$(dirname "$library")"
    install -m 0755 "$library" "$root$library"
done

# The order of host name lookup: glibc has these two built in, and its default queries DNS first.
echo 'hosts: files dns' > "$root/etc/nsswitch.conf"
# Certificate authorities for the TLS connections to agents and issuers.
[ -s "$authorities" ] || { echo "image-root: $authorities is missing; install ca-certificates" >&2; exit 1; }
install -m 0644 "$authorities" "$root$authorities"
# `run_dir`, writable for any user that the container runs as; only that user can access the sockets in it.
chmod 1777 "$root/run/diglot"
