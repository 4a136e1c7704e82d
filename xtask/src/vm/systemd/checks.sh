# What the binary must do on a host with systemd. Ends with the number of checks that failed.
failed=0
check() { # name, command…
    local name=$1
    shift
    if "$@"; then echo "ok: $name"; else
        echo "FAILED: $name"
        failed=$((failed + 1))
    fi
}
cat > /tmp/first-page.sh << 'FIRST_PAGE'
@FIRST_PAGE@
FIRST_PAGE
# tidy-ok: root of the emulated machine
root_page() { mkdir -p /root/page && cd /root/page && bash /tmp/first-page.sh; }
user_page() { as-user bash -c 'mkdir -p page && cd page && bash /tmp/first-page.sh'; }
user_page_is_complete() { user_page > /tmp/user-page; local code=$?; cat /tmp/user-page; return $code; }
# There is no compiler and no Node in the machine; nothing else may be refused.
without_refusals() { ! grep -v '/usr/bin/gcc\|--lang javascript' /tmp/user-page | grep 'serve refuses\|exit code 2'; }

# Rules are compiled by the first question, which the emulated machine may not manage in time.
warm_up() { for _ in 1 2 3 4 5 6 7 8 9; do "$@" ringfence call echo text=x > /dev/null 2>&1 && return; done; }
# The unit: started, a call of eight seconds, stopped meanwhile.
service_delivers() {
    systemctl start ringfence || { journalctl -u ringfence --no-pager; return 1; }
    warm_up env
    ringfence call -q code_execute code='print("warm")' || return 1
    ringfence call -q code_execute code='import time; time.sleep(8); print("delivered")' > /tmp/result &
    local client=$!
    until ringfence calls | grep -q running; do sleep 0.1; done
    systemctl stop ringfence || return 1
    wait $client || return 1
    cat /tmp/result
    grep -q delivered /tmp/result && [ "$(systemctl show -p Result --value ringfence)" = success ]
}
# A server of an ordinary user, started outside every delegated group, is in a scope of its own.
user_has_scope() {
    # tidy-ok: the user of the emulated machine
    cd /home/ada && rm -rf scope && mkdir scope && chown ada scope && cd scope || return 1
    as-user bash -c 'cd scope && exec ringfence serve --data data --listen 127.0.0.1:0 --json' > banner &
    local server=$!
    until [ -s banner ]; do kill -0 $server || return 1; sleep 0.1; done
    cat /proc/$server/cgroup
    grep -q "user@1000.service/.*ringfence-$server.scope" /proc/$server/cgroup || return 1
    warm_up as-user env RINGFENCE_DATA=scope/data
    as-user ringfence call -q code_execute code='print(6*7)' --data scope/data | grep -q 42 || return 1
    kill $server
    wait $server
}
check 'first page as root' root_page
check 'first page as an ordinary user' user_page_is_complete
check 'the ordinary user has every wall' without_refusals
check 'systemctl stop delivers the result of a running call' service_delivers
check 'serve of an ordinary user gets a scope of its own' user_has_scope
echo "$failed checks failed"
exit $failed
