use std::io::{ErrorKind, Read as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd as _;

use super::{Outgoing, Sends};

/// Both ends of a connection.
fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Every way there is on this machine.
fn ways() -> Vec<Sends> {
    let ways = [Sends::new(), Sends { ring: None }];
    assert!(!ways[1].is_batched());
    ways.into()
}

/// Sends and gives the outcomes in order.
fn send(sends: &mut Sends, all: &[(&TcpStream, &[u8])]) -> Vec<Result<usize, ErrorKind>> {
    let all: Vec<_> =
        all.iter().map(|(socket, bytes)| Outgoing { socket: socket.as_fd(), bytes }).collect();
    let mut outcomes: Vec<_> = all.iter().map(|_| None).collect();
    sends.send(&all, |number, sent| {
        let before = outcomes[number].replace(sent.map_err(|error| error.kind()));
        assert_eq!(before, None, "told twice");
    });
    outcomes.into_iter().map(|outcome| outcome.expect("never told")).collect()
}

#[test]
fn each_socket_gets_its_own() {
    for mut sends in ways() {
        // More than fit into the ring, and one that is left over.
        for count in [0, 1, 2, 255, 256, 257, 600] {
            let mut pairs: Vec<_> = (0..count).map(|_| connected()).collect();
            let texts: Vec<_> = (0..count).map(|n| format!("answer {n}")).collect();
            let all: Vec<_> =
                pairs.iter().zip(&texts).map(|((_, s), text)| (s, text.as_bytes())).collect();
            let batched = sends.is_batched();
            let outcomes = send(&mut sends, &all);
            let lengths: Vec<_> = texts.iter().map(|text| Ok(text.len())).collect();
            assert_eq!(outcomes, lengths);
            assert_eq!(sends.is_batched(), batched);
            for ((client, server), text) in pairs.iter_mut().zip(&texts) {
                server.shutdown(Shutdown::Write).unwrap();
                let mut got = String::new();
                client.read_to_string(&mut got).unwrap();
                assert_eq!(got, *text);
            }
        }
    }
}

#[test]
fn what_a_socket_does_not_take_is_told_and_nobody_waits() {
    for mut sends in ways() {
        let (slow, fast) = (connected(), connected());
        let large = vec![b'x'; 64 << 20];
        let some = send(&mut sends, &[(&slow.1, &large), (&fast.1, b"quick")]);
        let taken = some[0].unwrap();
        assert!((1..large.len()).contains(&taken), "{taken}");
        assert_eq!(some[1], Ok(5));
        let none = send(&mut sends, &[(&slow.1, &large), (&fast.1, b"again")]);
        assert_eq!(none, [Err(ErrorKind::WouldBlock), Ok(5)]);
    }
}

#[test]
fn a_connection_that_has_failed_is_no_other_ones_matter() {
    for mut sends in ways() {
        let (gone, here) = (connected(), connected());
        gone.1.shutdown(Shutdown::Write).unwrap();
        let outcomes = send(&mut sends, &[(&gone.1, b"nobody"), (&here.1, b"somebody")]);
        assert_eq!(outcomes, [Err(ErrorKind::BrokenPipe), Ok(8)]);
        // No signal has ended the process, and the next ones go.
        assert_eq!(send(&mut sends, &[(&here.1, b"1"), (&here.1, b"2")]), [Ok(1), Ok(1)]);
    }
}
