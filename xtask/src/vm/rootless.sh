#!/bin/bash
# Runs a command as an ordinary user: uid 65534, no groups, no capabilities, inside a cgroup
# delegated to that user in the way systemd delegates a scope: the process is in the group, the
# directory and the three files of the kernel's delegation model belong to the user, the limits
# of the group itself do not.
set -eu
base=/sys/fs/cgroup/delegated
scope=$base/scope-$$.scope
mkdir -p $base
echo '+memory +cpu +pids' > $base/cgroup.subtree_control
mkdir $scope
chown 65534:65534 $scope $scope/cgroup.procs $scope/cgroup.threads $scope/cgroup.subtree_control
echo $$ > $scope/cgroup.procs
# By path: busybox has a setpriv too, which knows no user ids.
exec /usr/bin/setpriv --reuid=65534 --regid=65534 --clear-groups \
    --inh-caps=-all --bounding-set=-all "$@"
