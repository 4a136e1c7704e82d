//! Two calls never share anything: files, environment, processes, randomness, memory.

use std::collections::BTreeSet;

use ringfence_sandbox::Request;
use ringfence_types::{Limits, SandboxNetwork};

use crate::support::{Tier, assert_exited, on_every_tier, stderr, stdout};

on_every_tier! {
    nothing_written_is_there_for_the_next_call
    processes_of_another_call_cannot_be_seen
    randomness_differs_from_the_first_byte
    local_ports_are_each_call_s_own
}

async fn nothing_written_is_there_for_the_next_call(tier: Tier) {
    let service = tier.service();
    let leave = tier.code(
        "import os\nfor d in ('/workspace', '/tmp', '/dev/shm', '/box'):\n    \
         open(d + '/left', 'w').write('x')\nos.environ['LEFT'] = 'x'",
        "for (const d of ['/workspace', '/tmp', '/dev/shm', '/box'])\
         require('fs').writeFileSync(d + '/left', 'x'); process.env.LEFT = 'x'",
    );
    let look = tier.code(
        "import os\nprint([d for d in ('/workspace', '/tmp', '/dev/shm', '/box') \
         if os.path.exists(d + '/left')], os.environ.get('LEFT'))",
        "console.log(['/workspace', '/tmp', '/dev/shm', '/box']\
         .filter(d => require('fs').existsSync(d + '/left')), process.env.LEFT)",
    );
    // The control: within one call what was written is there.
    let both = tier.code(
        "open('/tmp/left', 'w').write('x'); import os; print(os.path.exists('/tmp/left'))",
        "require('fs').writeFileSync('/tmp/left', 'x');\
         console.log(require('fs').existsSync('/tmp/left'))",
    );
    assert_eq!(stdout(&service.run(both).await).trim().to_lowercase(), "true");
    for _ in 0..3 {
        assert_exited(&service.run(leave.clone()).await, 0);
        let found = stdout(&service.run(look.clone()).await);
        assert!(["[] None\n", "[] undefined\n"].contains(&found.as_str()), "{found}");
    }
    service.close().await;
}

async fn processes_of_another_call_cannot_be_seen(tier: Tier) {
    let service = tier.service();
    let waiting = tier.code(
        "print('here', flush=True); import time; time.sleep(60)",
        "console.log('here'); setTimeout(() => {}, 60000)",
    );
    let other = service.start(waiting).await.expect("starts");
    crate::support::within("first output", other.stdout.read(0, 4)).await;
    let look = tier.code(
        "import os; print(sorted(int(p) for p in os.listdir('/proc') if p.isdigit()))",
        "console.log(require('fs').readdirSync('/proc').filter(p => /^\\d+$/.test(p)).join())",
    );
    let report = service.run(look).await;
    let seen: Vec<u32> = stdout(&report)
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect();
    // The init hides from the program where `hidepid` works; the program sees itself.
    assert!((1..=2).contains(&seen.len()), "{seen:?} {}", stderr(&report));
    other.cancel();
    let ended = crate::support::within("cancelled", other.wait()).await.expect("report");
    assert_eq!(ended.outcome, ringfence_types::Outcome::Cancelled);
    service.close().await;
}

async fn randomness_differs_from_the_first_byte(tier: Tier) {
    let service = tier.service();
    let request = tier.code(
        "import os, random, uuid; print(os.urandom(8).hex(), random.random(), uuid.uuid4())",
        "const c = require('crypto');\
         console.log(c.randomBytes(8).toString('hex'), Math.random(), c.randomUUID())",
    );
    let mut seen = BTreeSet::new();
    for _ in 0..4 {
        let report = service.run(Request { ..request.clone() }).await;
        seen.extend(stdout(&report).split_whitespace().map(str::to_owned));
    }
    assert_eq!(seen.len(), 12, "{seen:?}");
    service.close().await;
}

/// Each call has a network of its own: the same port is free for every one of them.
async fn local_ports_are_each_call_s_own(tier: Tier) {
    let service = tier.service();
    let listen = tier.code(
        "import socket, time\ns = socket.socket(); s.bind(('127.0.0.1', 8080)); s.listen()\n\
         print('up', flush=True); time.sleep(60)",
        "require('net').createServer(() => {})\
         .listen(8080, '127.0.0.1', () => console.log('up'))",
    );
    let with_loopback = |request: Request| {
        let limits = Limits { network: SandboxNetwork::Loopback, ..Limits::default() };
        Request { limits, ..request }
    };
    let listen = with_loopback(listen);
    let mut both = Vec::new();
    for _ in 0..2 {
        let running = service.start(listen.clone()).await.expect("starts");
        let said = crate::support::within("listening", running.stdout.read(0, 2)).await;
        assert_eq!(said, ringfence_sandbox::Chunk::Data(b"up".to_vec()));
        both.push(running);
    }
    let knock = tier.code(
        "import socket; s = socket.socket(); print(s.connect_ex(('127.0.0.1', 8080)))",
        "require('net').connect(8080, '127.0.0.1').on('error', e => console.log(-e.errno))",
    );
    assert_eq!(
        stdout(&service.run(with_loopback(knock)).await),
        "111\n",
        "refused: no listener here"
    );
    drop(both);
    service.close().await;
}
