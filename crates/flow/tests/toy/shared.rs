//! Equal reads that wait together for a server that takes nothing meanwhile.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flow::service::{ClientFigures, Fabric, Settings};

use crate::gateway::Toy;
use crate::stand::{Client, ToyCluster, key_of, settings};

/// Bytes of a request that fills the way to a server which reads nothing.
const FILL: usize = 60_000;

/// A server that reads nothing, with the way there full: what is asked now waits together. Gives
/// the client whose requests fill it, and how many these are: all of them are under way.
fn fill(stand: &ToyCluster, key: &str) -> (Client, usize) {
    stand.servers[0].is_deaf.store(true, Ordering::Relaxed);
    let (mut filler, mut count) = (stand.client(), 0);
    while !is_full(stand) {
        filler.send(format!("PUT {key} {FILL}\n{}", "x".repeat(FILL)));
        count += 1;
        stand.wait_for_in_flight(count);
    }
    (filler, count)
}

/// Whether the way takes no more, by far. For a moment it takes none while the kernel still makes
/// its buffer larger, or before the lane has come to write.
fn is_full(stand: &ToyCluster) -> bool {
    let before = unsent(stand);
    before > FILL && {
        std::thread::sleep(Duration::from_millis(100));
        unsent(stand) == before
    }
}

fn unsent(stand: &ToyCluster) -> usize {
    let lanes = stand.on_workers(|fabric| fabric.lanes());
    lanes.iter().flatten().map(|lane| lane.unsent).sum()
}

fn in_flight(stand: &ToyCluster) -> usize {
    stand.figures().iter().map(|figures| figures.in_flight).sum()
}

fn shared(stand: &ToyCluster) -> usize {
    stand.on_workers(|fabric| fabric.service().shared.get())[0]
}

/// One lane, on which much may be under way.
fn one_lane() -> Settings {
    let mut settings = settings();
    settings.lanes.count = 1;
    (settings.lanes.depth, settings.lane.depth) = (1000, 1000);
    settings
}

/// A client by its number at the toy, which has asked something, once that has come there.
fn asks(stand: &ToyCluster, line: &str) -> (Client, u64) {
    let mut client = stand.client();
    let id = client.ask("ID\n")[1..].parse().unwrap();
    client.send(line);
    stand.wait_until(|| unanswered(stand, id) == 1);
    (client, id)
}

fn unanswered(stand: &ToyCluster, id: u64) -> u64 {
    standing(stand, id, |standing| standing.unanswered)
}

fn unread(stand: &ToyCluster, id: u64) -> usize {
    standing(stand, id, |standing| standing.unread)
}

fn standing<T: Default + Send + 'static>(
    stand: &ToyCluster,
    id: u64,
    of: fn(ClientFigures) -> T,
) -> T {
    let of = move |fabric: &Rc<Fabric<Toy>>| {
        fabric.client(id).map_or_else(T::default, |client| of(client.figures()))
    };
    stand.on_workers(of).swap_remove(0)
}

#[test]
fn many_that_wait_for_the_same_ask_once_whoever_leaves_or_is_cancelled() {
    let stand = ToyCluster::start(1, one_lane());
    let (key, other, fills) = (key_of(0, "k"), key_of(0, "other"), key_of(0, "fill"));
    assert_eq!(stand.client().put(&key, "value"), "+ok");
    let (mut filler, count) = fill(&stand, &fills);
    let read = stand.servers[0].read.load(Ordering::Relaxed);
    let line = format!("GET {key}\n");
    let (first, _) = asks(&stand, &line);
    assert_eq!(in_flight(&stand), count + 1);
    let mut waiting: Vec<_> = (0..20).map(|_| asks(&stand, &line)).collect();
    let (mut another, _) = asks(&stand, &format!("GET {other}\n"));
    assert_eq!(in_flight(&stand), count + 2, "they wait with the first");
    // The first leaves, and one of the others; a third one is cancelled, and asks something else.
    drop(first);
    drop(waiting.pop());
    let (mut cancelled, id) = waiting.pop().unwrap();
    assert_eq!(stand.client().ask(format!("CANCEL {id}\n")), "+ok");
    assert_eq!(cancelled.hear().unwrap(), "-cancelled");
    // What one of them has sent behind it waits.
    waiting[0].0.send(format!("PUT {key} 3\nnew"));
    stand.servers[0].is_deaf.store(false, Ordering::Relaxed);
    (0..count).for_each(|_| assert_eq!(filler.hear().unwrap(), "+ok"));
    for (client, _) in &mut waiting {
        assert_eq!(client.hear().unwrap(), "$5 value");
    }
    assert_eq!(another.hear().unwrap(), "-none");
    assert_eq!(waiting[0].0.hear().unwrap(), "+ok");
    assert_eq!(cancelled.ask(&line), "$3 new");
    let asked = stand.servers[0].read.load(Ordering::Relaxed) - read;
    let more = asked.checked_sub(count);
    assert_eq!(more, Some(4), "{asked} with {count}: two reads, a write, and a read");
    assert_eq!(shared(&stand), 20, "of those who have left, too");
}

#[test]
fn a_read_behind_its_own_write_is_asked_by_itself() {
    let stand = ToyCluster::start(1, one_lane());
    let (key, fills) = (key_of(0, "k"), key_of(0, "fill"));
    assert_eq!(stand.client().put(&key, "old"), "+ok");
    let (mut filler, count) = fill(&stand, &fills);
    let (mut first, _) = asks(&stand, &format!("GET {key}\n"));
    // Its write is behind the first one's read.
    let (mut writer, id) = asks(&stand, &format!("PUT {key} 3\nnew"));
    writer.send(format!("GET {key}\n"));
    stand.wait_until(|| unanswered(&stand, id) == 2);
    assert_eq!(in_flight(&stand), count + 3);
    stand.servers[0].is_deaf.store(false, Ordering::Relaxed);
    (0..count).for_each(|_| assert_eq!(filler.hear().unwrap(), "+ok"));
    assert_eq!(first.hear().unwrap(), "$3 old");
    assert_eq!([writer.hear().unwrap(), writer.hear().unwrap()], ["+ok", "$3 new"]);
    assert_eq!(shared(&stand), 0);
}

#[test]
fn who_has_not_taken_its_answers_joins_nobody() {
    let stand = ToyCluster::start(1, one_lane());
    let (key, long, fills) = (key_of(0, "k"), key_of(0, "long"), key_of(0, "fill"));
    assert_eq!(stand.client().put(&key, "value"), "+ok");
    assert_eq!(stand.client().put(&long, &"v".repeat(60_000)), "+ok");
    let mut slow = stand.client();
    let id = slow.ask("ID\n")[1..].parse().unwrap();
    let read = || stand.servers[0].read.load(Ordering::Relaxed);
    let (before, mut answers) = (read(), 0);
    while unread(&stand, id) == 0 {
        slow.send(format!("GET {long}\n"));
        answers += 1;
        // One at a time: with more of them unread, the lane waits for their reader.
        stand.wait_until(|| read() == before + answers && unanswered(&stand, id) == 0);
    }
    let (mut filler, count) = fill(&stand, &fills);
    let line = format!("GET {key}\n");
    let (mut first, _) = asks(&stand, &line);
    slow.send(&line);
    stand.wait_until(|| unanswered(&stand, id) == 1);
    assert_eq!(in_flight(&stand), count + 2, "what it reads is of its own request");
    stand.servers[0].is_deaf.store(false, Ordering::Relaxed);
    (0..count).for_each(|_| assert_eq!(filler.hear().unwrap(), "+ok"));
    assert_eq!(first.hear().unwrap(), "$5 value");
    (0..answers).for_each(|_| assert_eq!(slow.hear().unwrap().len(), 60_007));
    assert_eq!(slow.hear().unwrap(), "$5 value");
    assert_eq!(shared(&stand), 0);
}

#[test]
fn who_joined_a_long_reply_or_a_lost_lane_asks_alone_and_before_what_it_sent_behind() {
    let stand = ToyCluster::start(1, one_lane());
    let (long, short) = (key_of(0, "long"), key_of(0, "k"));
    let fills = key_of(0, "fill");
    let value = "v".repeat(70_000);
    assert_eq!(stand.client().put(&long, &value), "+ok");
    assert_eq!(stand.client().put(&short, "value"), "+ok");
    for (key, is_cut) in [(&long, false), (&short, true)] {
        let line = format!("GET {key}\n");
        let before = stand.client().ask(&line);
        let (mut filler, count) = fill(&stand, &fills);
        let mut waiting: Vec<_> = (0..5).map(|_| asks(&stand, &line)).collect();
        assert_eq!(in_flight(&stand), count + 1);
        for (n, (client, _)) in waiting.iter_mut().enumerate() {
            client.send(format!("PUT {key} 1\n{n}"));
        }
        if is_cut {
            stand.servers[0].cut();
        }
        stand.servers[0].is_deaf.store(false, Ordering::Relaxed);
        if !is_cut {
            (0..count).for_each(|_| assert_eq!(filler.hear().unwrap(), "+ok"));
        }
        let heard: Vec<String> = waiting.iter_mut().map(|(of, _)| of.hear().unwrap()).collect();
        // Others may have written by the time that one asks again. It has not itself.
        assert!(heard.iter().enumerate().all(|(n, of)| *of != format!("$1 {n}")), "{heard:.40?}");
        assert_eq!(heard[0], before);
        for (n, (client, _)) in waiting.iter_mut().enumerate() {
            let heard = client.hear().unwrap();
            // The first one's write is behind its read on the lane, and may have gone out with it.
            let may_have_run = is_cut && n == 0 && heard == "-may have run";
            assert!(heard == "+ok" || may_have_run, "{n}: {heard}");
        }
        assert!(stand.client().ask(&line).starts_with("$1 "));
    }
    assert_eq!(shared(&stand), 0, "none has heard what was asked for another");
}
