use super::*;
use expect_test::{Expect, expect};
use std::fmt::Write;

const KERNEL: &str = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n\
    cpu\t1\t1\t1\ncpuacct\t1\t1\t1\nmemory\t2\t1\t1\nfreezer\t3\t1\t1\npids\t4\t1\t1\n";

fn check(mountinfo: &str, membership: &str, kernel: &str, expected: Expect) {
    let layout = read(Texts { mountinfo, membership, kernel });
    let mut text = format!("{:?}\n", layout.version);
    show(&mut text, "unified", &layout.unified);
    for (name, place) in NAMES.into_array().iter().zip(layout.legacy.into_array()) {
        show(&mut text, name, &place);
    }
    expected.assert_eq(&text);
}

fn show(text: &mut String, name: &str, place: &Result<GroupPath, Reason>) {
    match place {
        Ok(GroupPath { top, own }) => {
            writeln!(text, "{name}: {} in {}", own.display(), top.display())
        }
        Err(reason) => writeln!(text, "{name}: ! {reason}"),
    }
    .unwrap();
}

#[test]
fn a_systemd_host_with_version_2_has_one_place_for_all() {
    check(
        "29 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope\n",
        "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t0\t80\t1\n",
        expect![[r#"
            V2
            unified: /sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope in /sys/fs/cgroup
            memory: ! the memory controller is not mounted: mount -t cgroup -o memory none /sys/fs/cgroup/memory
            cpu: ! this kernel has no cpu controller
            cpuacct: ! this kernel has no cpuacct controller
            pids: ! this kernel has no pids controller
            freezer: ! this kernel has no freezer controller
            io: ! this kernel has no io controller
        "#]],
    );
}

#[test]
fn version_1_with_cpu_and_cpuacct_together_shares_the_path() {
    check(
        "30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
         31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
         32 25 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n",
        "3:memory:/a\n2:cpu,cpuacct:/a\n1:name=systemd:/init.scope\n",
        KERNEL,
        expect![[r#"
            V1
            unified: ! control groups version 2 are not mounted: mount -t cgroup2 none /sys/fs/cgroup
            memory: /sys/fs/cgroup/memory/a in /sys/fs/cgroup/memory
            cpu: /sys/fs/cgroup/cpu,cpuacct/a in /sys/fs/cgroup/cpu,cpuacct
            cpuacct: /sys/fs/cgroup/cpu,cpuacct/a in /sys/fs/cgroup/cpu,cpuacct
            pids: ! the pids controller is in use, but not mounted where this process can see it
            freezer: ! the freezer controller is in use, but not mounted where this process can see it
            io: ! this kernel has no io controller
        "#]],
    );
}

#[test]
fn a_hybrid_host_keeps_its_controllers_in_version_1() {
    check(
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
         33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n\
         35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
         37 31 0:34 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
         39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
         41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        "8:pids:/\n6:freezer:/\n4:memory:/jobs/7\n2:cpuacct:/\n1:cpu:/\n0::/\n",
        KERNEL,
        expect![[r#"
            Hybrid
            unified: /sys/fs/cgroup/unified in /sys/fs/cgroup/unified
            memory: /sys/fs/cgroup/memory/jobs/7 in /sys/fs/cgroup/memory
            cpu: /sys/fs/cgroup/cpu in /sys/fs/cgroup/cpu
            cpuacct: /sys/fs/cgroup/cpuacct in /sys/fs/cgroup/cpuacct
            pids: /sys/fs/cgroup/pids in /sys/fs/cgroup/pids
            freezer: /sys/fs/cgroup/freezer in /sys/fs/cgroup/freezer
            io: ! this kernel has no io controller
        "#]],
    );
}

#[test]
fn a_docker_container_sees_its_own_part_as_the_whole() {
    check(
        "700 690 0:26 /docker/0123 /sys/fs/cgroup/memory ro,nosuid master:14 - cgroup cgroup rw,memory\n\
         701 690 0:27 /docker/0123 /sys/fs/cgroup/pids ro,nosuid master:15 - cgroup cgroup rw,pids\n\
         702 690 0:28 /docker/other /sys/fs/cgroup/cpu ro,nosuid master:16 - cgroup cgroup rw,cpu\n",
        "3:memory:/docker/0123\n2:pids:/docker/0123/inner\n1:cpu:/docker/0123\n",
        KERNEL,
        expect![[r#"
            V1
            unified: ! control groups version 2 are not mounted: mount -t cgroup2 none /sys/fs/cgroup
            memory: /sys/fs/cgroup/memory in /sys/fs/cgroup/memory
            cpu: ! our own control group is not in the part of the hierarchy that is mounted (/docker/0123)
            cpuacct: ! the cpuacct controller is in use, but not mounted where this process can see it
            pids: /sys/fs/cgroup/pids/inner in /sys/fs/cgroup/pids
            freezer: ! the freezer controller is in use, but not mounted where this process can see it
            io: ! this kernel has no io controller
        "#]],
    );
}

#[test]
fn a_process_outside_its_control_group_namespace_has_no_place() {
    check(
        "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "0::/../sibling\n",
        "memory\t0\t80\t0\n",
        expect![[r#"
            V2
            unified: ! our own control group is not in the part of the hierarchy that is mounted (/../sibling)
            memory: ! the memory controller is switched off at boot: add cgroup_enable=memory to the kernel command line
            cpu: ! this kernel has no cpu controller
            cpuacct: ! this kernel has no cpuacct controller
            pids: ! this kernel has no pids controller
            freezer: ! this kernel has no freezer controller
            io: ! this kernel has no io controller
        "#]],
    );
}

#[test]
fn the_second_mount_serves_when_the_first_does_not_show_our_group() {
    check(
        "1 0 0:26 /elsewhere /srv/part rw - cgroup2 none rw\n\
         2 0 0:26 / /mnt/control\\040groups rw - cgroup2 none rw\n",
        "0::/here\n",
        "",
        expect![[r#"
            V2
            unified: /mnt/control groups/here in /mnt/control groups
            memory: ! this kernel has no memory controller
            cpu: ! this kernel has no cpu controller
            cpuacct: ! this kernel has no cpuacct controller
            pids: ! this kernel has no pids controller
            freezer: ! this kernel has no freezer controller
            io: ! this kernel has no io controller
        "#]],
    );
}

#[test]
fn a_host_without_any_mount_is_absent() {
    assert_eq!(read(Texts { mountinfo: "", membership: "", kernel: "" }).version, Version::Absent);
}
