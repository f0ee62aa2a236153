#!/bin/sh
# Unpacks the newest Linux image of Debian for virtual machines, 27 MB, without installing it: into FOLDER, as vmlinuz-VERSION.
# usage: fetch_kernel.sh FOLDER
set -eu
folder=$1
command -v apt-get >/dev/null || {
  echo "no apt-get here to fetch a Linux image with"
  exit 1
}
mkdir -p "$folder"
cd "$folder"
package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: *//p')
[ -n "$package" ] || {
  echo "apt-cache knows no linux-image-cloud-amd64"
  exit 1
}
apt-get -q download "$package" 2>&1
dpkg-deb --fsys-tarfile "$package"_*.deb | tar -x --strip-components=2 --wildcards './boot/vmlinuz*'
rm "$package"_*.deb
