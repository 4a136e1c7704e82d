#!/usr/bin/busybox sh
# First process of the machine with systemd: makes an ordinary mount of the root, which pivot_root
# needs (see ../init.sh), then becomes systemd.
busybox mkdir -p /.root
busybox mount --bind / /.root
cd /.root || exit 1
busybox mount --move . /
exec busybox chroot . /lib/systemd/systemd
