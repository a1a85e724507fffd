//! Each client hears its own answers, in the order of its requests.

use crate::stand::{ToyCluster, alone, key_of, settings};

#[test]
fn answers_come_in_the_order_of_the_requests_whoever_gives_them() {
    let stand = ToyCluster::start(1, settings());
    let mut client = stand.client();
    let (a, b) = (key_of(0, "a"), key_of(1, "b"));
    assert_eq!(client.put(&a, "one"), "+ok");
    assert_eq!(client.put(&b, "three"), "+ok");
    let all = format!("GET {a}\nSUM {a} {b} none\nID\nGET {b}\nGET none\nPUT {a} 2\nxxGET {a}\n");
    client.send(all.repeat(50));
    for turn in 0..50 {
        let first = if turn == 0 { ("$3 one", "+8") } else { ("$2 xx", "+7") };
        for expected in [first.0, first.1, "+0", "$5 three", "-none", "+ok", "$2 xx"] {
            assert_eq!(client.hear().unwrap(), expected, "turn {turn}");
        }
    }
    assert_eq!(stand.servers[0].put_times(a.as_bytes()), 51);
}

#[test]
fn many_clients_share_a_few_lanes_and_none_hears_of_another() {
    let stand = ToyCluster::start(2, settings());
    std::thread::scope(|scope| {
        for number in 0..40 {
            let mut client = stand.client();
            scope.spawn(move || {
                let (a, b) = (key_of(0, &format!("a{number}-")), key_of(1, &format!("b{number}-")));
                for turn in 0..100 {
                    let value = format!("{number}:{turn}");
                    let len = value.len();
                    client.send(format!("PUT {a} {len}\n{value}GET {a}\nPUT {b} {len}\n{value}"));
                    client.send(format!("GET {b}\nSUM {a} {b}\n"));
                    let heard: Vec<String> = (0..5).map(|_| client.hear().unwrap()).collect();
                    let got = format!("${len} {value}");
                    assert_eq!(heard, ["+ok", &got, "+ok", &got, &format!("+{}", 2 * len)]);
                }
            });
        }
    });
    let lanes: usize = stand.figures().iter().map(|figures| figures.lanes).sum();
    assert!((2..=8).contains(&lanes), "{lanes}");
}

#[test]
fn a_client_that_holds_a_connection_has_its_state_and_leaves_none() {
    let stand = ToyCluster::start(1, settings());
    let key = key_of(1, "k");
    let mut clients: Vec<_> = (0..4).map(|_| stand.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("PUT {key} 1\n{number}HOLD {key}\nNAME {key} c{number}\n"));
        for expected in ["+ok", "+held", "+ok"] {
            assert_eq!(client.hear().unwrap(), expected);
        }
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let answer = client.ask(format!("NAMED {key}\n"));
        assert_eq!(answer, format!("+c{number}"));
        assert_eq!(client.ask(format!("FREE {key}\n")), "+free");
    }
    let deadline = std::time::Instant::now() + crate::stand::LONG;
    while stand.on_workers(|fabric| fabric.service().restored.get()) != [4] {
        assert!(std::time::Instant::now() < deadline, "they are not given back");
        std::thread::yield_now();
    }
    let accepted = stand.servers[1].accepted.load(std::sync::atomic::Ordering::Relaxed);
    for client in &mut clients {
        assert_eq!(client.ask(format!("HOLD {key}\n")), "+held");
        assert_eq!(client.ask(format!("NAMED {key}\n")), "+nobody");
    }
    let now = stand.servers[1].accepted.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(now, accepted, "connections are lent again");
}

#[test]
fn a_connection_that_a_request_taints_is_closed_and_nobody_else_has_it() {
    let stand = ToyCluster::start(1, settings());
    let key = key_of(1, "k");
    let mut client = stand.client();
    assert_eq!(client.ask(format!("TAINT {key}\n")), "-not sent: lost", "it rides no lane");
    assert_eq!(client.hear().unwrap(), "!a step was not sent");
    assert_eq!(client.ask(format!("HOLD {key}\n")), "+held");
    client.send(format!("NAME {key} me\nTAINT {key}\nNAMED {key}\nFREE {key}\nHOLD {key}\n"));
    for expected in ["+ok", "+me", "+me", "+free", "+held"] {
        assert_eq!(client.hear().unwrap(), expected);
    }
    assert_eq!(client.ask(format!("NAMED {key}\n")), "+nobody");
    let accepted = stand.servers[1].accepted.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(accepted, 2, "another one");
    assert_eq!(client.ask(format!("FREE {key}\n")), "+free");
    stand.wait_until(|| stand.on_workers(|fabric| fabric.service().restored.get()) == [1]);
}

#[test]
fn a_client_may_hold_a_connection_to_each_of_several_servers() {
    let stand = ToyCluster::start(1, settings());
    let (a, b) = (key_of(0, "a"), key_of(1, "b"));
    let mut client = stand.client();
    for key in [&a, &b] {
        assert_eq!(client.ask(format!("HOLD {key}\n")), "+held");
        assert_eq!(client.ask(format!("NAME {key} {key}\n")), "+ok");
    }
    client.send(format!("NAMED {a}\nNAMED {b}\nFREE {a}\nNAMED {a}\nNAMED {b}\n"));
    for expected in [format!("+{a}"), format!("+{b}"), "+free".into(), "+nobody".into()] {
        assert_eq!(client.hear().unwrap(), expected);
    }
    assert_eq!(client.hear().unwrap(), format!("+{b}"), "the other one is held still");
    assert_eq!(client.ask(format!("HOLD {a}\n")), "+held");
    // What is large goes by the connection that is there, and leaves it.
    assert_eq!(client.put(&b, &"x".repeat(100_000)), "+ok");
    assert_eq!(client.ask(format!("NAMED {b}\n")), format!("+{b}"));
    assert_eq!(client.ask(format!("FREE {b}\n")), "+free");
    stand.wait_until(|| stand.on_workers(|fabric| fabric.service().restored.get()) == [2]);
    assert_eq!(client.ask(format!("NAMED {a}\n")), "+nobody");
}

#[test]
fn a_message_that_nobody_asked_for_comes_between_two_answers() {
    let stand = ToyCluster::start(1, settings());
    let (mut watcher, mut writer) = (stand.client(), stand.client());
    let key = key_of(0, "k");
    assert_eq!(watcher.ask(format!("WATCH {key}\n")), "+ok");
    let big = "x".repeat(50_000);
    assert_eq!(writer.put(&key, &big), "+ok");
    assert_eq!(watcher.hear().unwrap(), format!("!{key}"));
    for _ in 0..20 {
        watcher.send(format!("GET {key}\n"));
        assert_eq!(writer.put(&key, &big), "+ok");
        let mut heard = [watcher.hear().unwrap(), watcher.hear().unwrap()];
        heard.sort_unstable();
        assert_eq!(heard, [format!("!{key}"), format!("$50000 {big}")]);
    }
}

#[test]
fn a_large_request_goes_as_it_comes_with_little_memory() {
    alone("order::a_large_request_goes_as_it_comes_with_little_memory", large_request);
}

fn large_request() {
    let stand = ToyCluster::start(1, settings());
    let key = key_of(0, "k");
    let mut client = stand.client();
    let (chunk, chunks) = (vec![b'x'; 1 << 20], 128);
    assert_eq!(client.put(&key, "small"), "+ok");
    let before = crate::stand::memory();
    client.send(format!("PUT {key} {}\n", chunks << 20));
    let mut most = 0;
    for _ in 0..chunks {
        client.send(&chunk);
        most = most.max(crate::stand::memory().saturating_sub(before));
    }
    client.send(format!("PUT {key} 2\nhiGET {key}\n"));
    for expected in ["+ok", "+ok", "$2 hi"] {
        assert_eq!(client.hear().unwrap(), expected);
    }
    assert!(most < 64 << 20, "{most} bytes more");
    assert_eq!(stand.servers[0].put_times(key.as_bytes()), 3);
}

#[test]
fn what_is_done_apart_begins_behind_all_before_and_holds_up_all_behind() {
    let stand = ToyCluster::start(1, settings());
    let begun = || stand.on_workers(|fabric| fabric.service().apart.borrow().len())[0];
    let answer = || {
        stand.on_workers(|fabric| {
            let all = fabric.service().apart.take();
            all.into_iter().for_each(|apart| apart.answer(b"+apart\n"));
        })
    };
    let key = key_of(0, "k");
    let mut client = stand.client();
    stand.servers[0].hang(true);
    client.send(format!("ADD {key} x\nAPART\nADD {key} y\n"));
    stand.wait_for_in_flight(1);
    assert_eq!(begun(), 0);
    stand.servers[0].hang(false);
    assert_eq!(client.hear().unwrap(), "+ok");
    stand.wait_until(|| begun() == 1);
    assert_eq!(stand.servers[0].value(&key), Some(b"x".to_vec()));
    answer();
    assert_eq!([client.hear().unwrap(), client.hear().unwrap()], ["+apart", "+ok"]);
    // Whoever is gone meanwhile is not missed, nor is what was dropped.
    client.send("APART\n");
    stand.wait_until(|| begun() == 1);
    let mut other = stand.client();
    other.send("APART\nID\n");
    stand.wait_until(|| begun() == 2);
    drop(client);
    stand.on_workers(|fabric| drop(fabric.service().apart.take()));
    assert!(other.hear().unwrap().starts_with('+'));
}

#[test]
fn the_gateway_is_told_in_the_order_of_the_requests_whoever_answers_first() {
    let stand = ToyCluster::start(1, settings());
    let mut client = stand.client();
    let (a, b) = (key_of(0, "a"), key_of(1, "b"));
    assert_eq!(client.put(&a, "one"), "+ok");
    assert_eq!(client.put(&b, "three"), "+ok");
    // The answer to the first is parts of two servers, and the last has no key.
    client.send(format!("SUM {a} {b}\nNOTE {a}\nID\nNOTE {b}\nNOTE none\n").repeat(20));
    let mut told = Vec::new();
    for turn in 0..20 {
        for expected in ["+8", "$3 one", "+0", "$5 three", "-none"] {
            let heard = loop {
                match client.hear().unwrap() {
                    line if line.starts_with('!') => told.push(line),
                    line => break line,
                }
            };
            assert_eq!(heard, expected, "turn {turn}");
        }
    }
    while told.len() < 60 {
        told.push(client.hear().unwrap());
    }
    let wanted = (0..20).flat_map(|turn| {
        let first = 3 * turn;
        [(first, "$3"), (first + 1, "$5"), (first + 2, "-none")]
    });
    let wanted: Vec<String> = wanted.map(|(at, begins)| format!("!{at} {begins}")).collect();
    assert_eq!(told, wanted);
}

#[test]
fn of_a_step_that_is_not_sent_the_gateway_hears_before_it_is_asked_for_more() {
    let stand = ToyCluster::start(1, settings());
    let mut client = stand.client();
    let key = key_of(0, "a");
    assert_eq!(client.put(&key, "one"), "+ok");
    // There is no connection of its own.
    client.send(format!("STEP {key}\nID\nHOLD {key}\nSTEP {key}\n"));
    let heard: Vec<String> = (0..5).map(|_| client.hear().unwrap()).collect();
    assert_eq!(heard, ["-not sent: lost", "!a step was not sent", "+0", "+held", "$3 one"]);
}
