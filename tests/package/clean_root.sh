#!/bin/sh
# In a clean Debian (test_debian.py): installs the packages in packages/, uses them as debian/tests says, and removes them.
set -eu
cd /hakmem
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

# All files but those that change by themselves.
list() {
  find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /hakmem -o -path /var/log -o -path /var/cache \
    -o -path /var/lib/apt \) -prune -o -print | grep -v '^/var/lib/dpkg/.*-old$' | sort
}

list >before
apt-get -q -y --no-install-recommends install ./*.deb
list >during
[ "$(comm -13 before during | grep -c hakmem)" -gt 20 ] || {
  echo "nothing was installed"
  exit 1
}
dpkg --audit
[ "$(dpkg --verify hakmem-tools libhakmem0 libhakmem0-hardened libhakmem-dev | grep -v '/usr/share/\(doc\|man\)' || true)" = "" ]

for test in programs build; do
  sh "./$test"
done

apt-get -q -y purge --auto-remove hakmem-tools libhakmem0 libhakmem0-hardened libhakmem-dev
list >after
if ! diff before after; then
  echo "the files above (>) are left, or (<) lost"
  exit 1
fi
# And what was in use stays usable.
perl -e 'print "removed: nothing is left\n"'
