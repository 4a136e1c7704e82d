#!/usr/bin/busybox sh
# PID 1 of the test machine: makes an ordinary host out of an initramfs, runs /command, reports
# its exit code on the console, powers off.
export PATH=/usr/bin:/usr/sbin HOME=/tmp LANG=C.UTF-8

if [ "$1" != second ]; then
    # pivot_root refuses the initial rootfs, and the jail needs pivot_root. A bind mount of the
    # root moved over itself is an ordinary mount, without copying a byte.
    busybox mkdir -p /.root
    busybox mount --bind / /.root
    cd /.root || exit 1
    busybox mount --move . /
    exec busybox chroot . /init second
fi

cd /
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts -o mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=755 tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ln -sf /proc/self/fd /dev/fd
ip link set lo up
hostname ringfence-vm
echo '+memory +cpu +pids' > /sys/fs/cgroup/cgroup.subtree_control

bash /command < /dev/null
echo "RINGFENCE-VM-EXIT $?"
# The last bytes are in the UART's queue; poweroff flushes the console, but only after sync.
sync
poweroff -f
