//! A way in that no client knows: it has code for its bytes and its answers, and for nothing else.

use std::time::Duration;

use super::Rig;
use crate::admission::{Admission, NameError, Points, Refusal, WorkerAdmission};

/// A packet of one database's name, a measurement's, and a number, each in a line of its own.
struct Packet<'a>([&'a str; 3]);

/// What its sender hears: a letter.
type Letter = char;

impl<'a> Packet<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let parts: Vec<&str> = text.lines().collect();
        parts.try_into().ok().map(Self)
    }

    fn points(&self) -> Points {
        let [_, measurement, value] = self.0;
        Points::of_lines(format!("{measurement} v={value} 1\n").into_bytes())
    }
}

async fn serve(admission: &Admission, worker: &WorkerAdmission, text: &str) -> Letter {
    let Some(packet) = Packet::read(text) else { return '?' };
    let to = match admission.resolve(packet.0[0], "", false).await {
        Ok(to) => to,
        Err(NameError::NoDatabase | NameError::NoPolicy) => return 'n',
        Err(NameError::Refused(refusal)) => return letter_of(&refusal),
    };
    match worker.admit(&to, packet.points()).await {
        Ok(outcome) if outcome.dropped > 0 => 'd',
        Ok(_) => 'a',
        Err(refusal) => letter_of(&refusal),
    }
}

fn letter_of(refusal: &Refusal) -> Letter {
    match refusal {
        Refusal::Append(_) => 'j',
        Refusal::Unacknowledged(_) => 'u',
        _ => 's',
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sixth_way_in_needs_its_bytes_and_its_answers_only() {
    let rig = Rig::with_store();
    rig.write("m v=1 1\n").await;
    let worker = rig.worker();
    for (text, answer) in
        [("d\nm\n2", 'a'), ("d\nm\n2i", 'd'), ("e\nm\n2", 'n'), ("d", '?'), ("d\nn\n1", 'a')]
    {
        let answered =
            tokio::time::timeout(Duration::from_secs(60), serve(&rig.admission, &worker, text));
        assert_eq!(answered.await, Ok(answer), "{text:?}");
    }
    rig.journal.close().await;
    assert_eq!(serve(&rig.admission, &worker, "d\nm\n3").await, 'j');
    rig.stop().await;
}
