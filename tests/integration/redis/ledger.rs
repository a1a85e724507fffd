//! Clients that write while servers change, and what must hold of what they were told.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rig::redis::RedisClient;
use rig::wait;
use rig::weir::Weir;
use wire::resp::{Value, value};

/// What a client was told of its writes.
#[derive(Default)]
pub struct WriteOutcomes {
    ok: Vec<String>,
    /// What was counted, and what may have been.
    counted: [usize; 2],
    not_sent: Vec<String>,
    unknown: Vec<String>,
}

/// What goes on while clients write.
#[derive(Default)]
pub struct Load {
    pub is_over: AtomicBool,
    /// So many writes were told of as done.
    done: AtomicUsize,
}

impl Load {
    /// Waits until so many more are done.
    pub fn goes_on(&self, more: usize) {
        let from = self.done.load(Ordering::Relaxed);
        wait::until("clients write", wait::LONG, || {
            self.done.load(Ordering::Relaxed) >= from + more
        });
    }

    pub fn ends(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// What Weir or a server says of a write that it has not run.
const NOT_RUN: [&str; 9] = [
    "-ERR weir: not sent",
    "-CLUSTERDOWN ",
    "-TRYAGAIN ",
    "-READONLY ",
    "-LOADING ",
    "-BUSY ",
    "-OOM ",
    "-MISCONF ",
    "-NOREPLICAS ",
];

fn is_not_run(heard: &str) -> bool {
    NOT_RUN.iter().any(|word| heard.starts_with(word))
}

/// Pipelines of writes to one slot, of numbers that count, until the load is over.
pub fn write(weir: &Weir, list: &str, name: &str, load: &Load) -> WriteOutcomes {
    let (mut told, mut n, mut client) = (WriteOutcomes::default(), 0, super::scene::admin(weir));
    while !load.is_over.load(Ordering::Relaxed) {
        let elements: Vec<String> = (n..n + 8).map(|n| format!("{name}.{n}")).collect();
        n += 8;
        for element in &elements {
            client.say(&["RPUSH", list, element]);
            client.say(&["INCR", &format!("{list}:n")]);
        }
        for element in elements {
            let heard = client.hear();
            match client.hear() {
                heard if heard.starts_with(':') => told.counted[0] += 1,
                heard if heard.starts_with("-ERR weir: may have run") => told.counted[1] += 1,
                heard => assert!(is_not_run(&heard), "{heard}"),
            }
            match &*heard {
                heard if heard.starts_with(':') => {
                    load.done.fetch_add(1, Ordering::Relaxed);
                    told.ok.push(element);
                }
                heard if heard.starts_with("-ERR weir: may have run") => told.unknown.push(element),
                heard if is_not_run(heard) => told.not_sent.push(element),
                heard => panic!("{heard}"),
            }
        }
    }
    told
}

/// What may become of writes, beside what was told of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Servers {
    /// Each has run when it was told of.
    KeepAll,
    /// What was done may be lost.
    Lose,
    /// What may have run may still run later, out of its turn: a server that comes to it has not
    /// noticed yet that its connection has ended.
    RunLate,
}

/// The elements of a list are those that were told of: each once, and each client's in its order.
pub fn check(client: &mut RedisClient, list: &str, told: &[WriteOutcomes], servers: Servers) {
    let may_lose = servers == Servers::Lose;
    let there = client.try_ask(&["LRANGE", list, "0", "-1"]).unwrap();
    let Ok((Value::Array(there), _)) = value(&there) else { panic!("{there:?}") };
    let text = |of: &Value<'_>| match of {
        Value::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("{other:?}"),
    };
    let there: Vec<String> = there.iter().map(text).collect();
    let mut once = std::collections::HashSet::new();
    for element in &there {
        assert!(once.insert(element.clone()), "{element} ran twice");
    }
    let mut last = std::collections::HashMap::new();
    let is_unknown = |element: &String| told.iter().any(|told| told.unknown.contains(element));
    for element in &there {
        if servers == Servers::RunLate && is_unknown(element) {
            continue;
        }
        let (name, n) = element.split_once('.').unwrap();
        let n: u64 = n.parse().unwrap();
        let before = last.insert(name.to_owned(), n);
        assert!(before.is_none_or(|before| before < n), "{element} is behind {before:?}");
    }
    for told in told {
        let lost = told.ok.iter().filter(|element| !once.contains(*element)).count();
        assert!(may_lose || lost == 0, "{lost} of {} are lost", told.ok.len());
        let ran = told.not_sent.iter().filter(|element| once.contains(*element)).count();
        assert_eq!(ran, 0, "were not sent and ran");
    }
    let there = client.ask(&["GET", &format!("{list}:n")]);
    let there: usize = there.split(' ').nth(1).unwrap().parse().unwrap();
    let of = |which: usize| told.iter().map(|told| told.counted[which]).sum::<usize>();
    let (least, most) = (of(0), of(0) + of(1));
    assert!(may_lose || least <= there, "{least} were counted, {there} are there");
    assert!(there <= most, "{there} are there, and {most} were counted at most");
}
