//! What the listening connection is told, and what the clients hear, without any server.

use std::sync::Arc;

use watch::metrics::Registry;

use super::hub::{Hub, Verb};
use super::{Joined, Listener, Mailbox, Metrics};

fn hub() -> Arc<Hub> {
    Arc::new(Hub::new("db", Metrics::new(&Registry::new())))
}

fn listener(hub: &Arc<Hub>, client: i32) -> (Listener, Arc<Mailbox>) {
    let mailbox = Arc::new(Mailbox::default());
    (Listener::new(hub.clone(), client, mailbox.clone()), mailbox)
}

/// What the server is told, in the order of the names; it does it.
fn settle(hub: &Hub) -> Vec<(String, Verb)> {
    let batch = hub.batch(100);
    hub.confirm(&batch);
    let mut told: Vec<_> = batch.iter().map(|(name, verb)| (name.to_string(), *verb)).collect();
    told.sort_by(|a, b| a.0.cmp(&b.0));
    told
}

fn told(name: &str, verb: Verb) -> (String, Verb) {
    (name.to_owned(), verb)
}

fn heard(mailbox: &Mailbox) -> Vec<Vec<u8>> {
    mailbox.take().unwrap().iter().map(|message| message.to_vec()).collect()
}

fn say(hub: &Hub, channel: &str, text: &[u8]) {
    hub.deliver(channel, &text.into());
}

#[test]
fn a_listen_is_answered_once_the_server_has_it() {
    let hub = hub();
    let (mut one, mail) = listener(&hub, 1);
    let Ok(Joined::Soon(mut answer)) = one.join("a") else { panic!("not there yet") };
    assert!(answer.try_recv().is_err());
    let batch = hub.batch(100);
    assert!(answer.try_recv().is_err(), "only asked");
    hub.confirm(&batch);
    assert_eq!(answer.try_recv(), Ok(Ok(())));
    assert!(matches!(one.join("a"), Ok(Joined::Now)));
    assert!(settle(&hub).is_empty());
    // Another one hears nothing that was notified before its own LISTEN.
    let (mut two, more) = listener(&hub, 2);
    let Ok(Joined::Soon(mut answer)) = two.join("a") else { panic!("the server is asked") };
    let batch = hub.batch(100);
    say(&hub, "a", b"before");
    assert_eq!(heard(&mail), [b"before"]);
    hub.confirm(&batch);
    assert_eq!(answer.try_recv(), Ok(Ok(())));
    say(&hub, "a", b"x");
    say(&hub, "b", b"y");
    assert_eq!((heard(&mail), heard(&more)), (vec![b"x".to_vec()], vec![b"x".to_vec()]));
}

#[test]
fn the_last_to_leave_ends_it() {
    let hub = hub();
    let ((mut one, mail), (mut two, _)) = (listener(&hub, 1), listener(&hub, 2));
    let _ = (one.join("a"), two.join("a"), two.join("b"));
    assert_eq!(settle(&hub), [told("a", Verb::Listen), told("b", Verb::Listen)]);
    one.leave("a");
    assert!(settle(&hub).is_empty());
    say(&hub, "a", b"x");
    assert!(heard(&mail).is_empty());
    drop(two);
    assert_eq!(settle(&hub), [told("a", Verb::Unlisten), told("b", Verb::Unlisten)]);
    assert!(!hub.is_wanted());
}

#[test]
fn who_joins_while_it_is_being_left_is_answered_after_the_next_listen() {
    let hub = hub();
    let (mut one, _mail) = listener(&hub, 1);
    let _ = one.join("a");
    settle(&hub);
    one.leave("a");
    let leaving = hub.batch(100);
    let Ok(Joined::Soon(mut answer)) = one.join("a") else { panic!("it is being left") };
    hub.confirm(&leaving);
    assert!(answer.try_recv().is_err());
    assert_eq!(settle(&hub), [told("a", Verb::Listen)]);
    assert_eq!(answer.try_recv(), Ok(Ok(())));
    // The other way round: left before the LISTEN was confirmed.
    let (mut two, _mail) = listener(&hub, 2);
    let _ = two.join("b");
    let joining = hub.batch(100);
    two.leave("b");
    hub.confirm(&joining);
    assert_eq!(settle(&hub), [told("b", Verb::Unlisten)]);
    // Or before it was asked for.
    let _ = two.join("c");
    two.leave("c");
    assert!(settle(&hub).is_empty());
    drop(one);
    settle(&hub);
    assert!(!hub.is_wanted());
}

#[test]
fn a_lost_connection_is_a_gap_for_those_who_listened() {
    let hub = hub();
    let ((mut one, _a), (mut two, _b)) = (listener(&hub, 1), listener(&hub, 2));
    let _ = one.join("a");
    assert!(!hub.lost(), "nobody has been told yet that it is listened to");
    assert_eq!(settle(&hub), [told("a", Verb::Listen)]);
    assert!(hub.restored().is_none());
    assert!(hub.lost());
    let Ok(Joined::Soon(mut answer)) = two.join("a") else { panic!("it is gone") };
    assert_eq!(settle(&hub), [told("a", Verb::Listen)]);
    assert_eq!(answer.try_recv(), Ok(Ok(())));
    let gap = hub.restored().unwrap();
    assert_eq!(gap.missed_by.into_keys().collect::<Vec<_>>(), [1]);
    assert!(hub.restored().is_none());
}

#[test]
fn who_is_refused_hears_why() {
    let hub = hub();
    let (mut one, _mail) = listener(&hub, 1);
    let Ok(Joined::Soon(mut answer)) = one.join("a") else { panic!("not there yet") };
    let batch = hub.batch(100);
    hub.refuse(&batch[0].0, &"no".into());
    assert_eq!(answer.try_recv(), Ok(Err("no".into())));
    one.leave("a");
    assert!(settle(&hub).is_empty());
    assert!(!hub.is_wanted());
}

#[test]
fn a_mailbox_is_bounded() {
    let mailbox = Mailbox::default();
    let message: Arc<[u8]> = vec![0; 9000].into();
    assert!(!mailbox.put(&message));
    assert!(mailbox.waits() && !mailbox.is_over());
    assert_eq!(mailbox.take().unwrap().len(), 1);
    assert!(!mailbox.waits());
    let over = (0..2000).filter(|_| mailbox.put(&message)).count();
    assert_eq!(over, 1, "said once");
    assert!(mailbox.waits() && mailbox.is_over() && mailbox.take().is_err());
}

#[test]
fn channels_are_bounded() {
    let hub = hub();
    let (mut one, _mail) = listener(&hub, 1);
    let joined = (0..2000).filter(|n| one.join(&n.to_string()).is_ok()).count();
    assert_eq!(joined, super::listener::CHANNELS_MAX);
    assert!(one.join("7").is_ok(), "it has that one");
    drop(one);
    settle(&hub);
    let mut others: Vec<_> = (2..14).map(|client| listener(&hub, client).0).collect();
    let names = |other: usize| (0..1000).map(move |n| format!("{n} of {other}"));
    let all = others.iter_mut().enumerate();
    let joined = all.map(|(n, other)| names(n).filter(|name| other.join(name).is_ok()).count());
    assert_eq!(joined.sum::<usize>(), super::hub::CHANNELS_MAX);
}
