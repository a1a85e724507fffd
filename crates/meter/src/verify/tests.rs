use super::{Fault, Findings, StoredWrite};
use crate::ledger::Fate;

#[test]
fn a_write_without_an_answer_is_never_lost_and_one_that_was_never_sent_is_strange() {
    let mut findings = Findings::default();
    let (once, twice) = (StoredWrite::once(true), StoredWrite { count: 2, is_altered: false });
    for (number, (fate, seen)) in [
        (Fate::Acknowledged, once),
        (Fate::Unknown, once),
        (Fate::Unknown, StoredWrite::default()),
        (Fate::Refused, StoredWrite::default()),
        (Fate::Unsent, StoredWrite::default()),
    ]
    .into_iter()
    .enumerate()
    {
        findings.note(fate, seen, || format!("{number}"));
    }
    assert!(findings.is_right());
    assert_eq!((findings.unknown, findings.refused), ([1, 1], [0, 1]));
    assert_eq!(
        findings.to_string(),
        "RIGHT  1 acknowledged writes: none lost, none altered, none doubled\n\
         unknown  1 found, 1 not found\nrefused  0 found, 1 not found\n"
    );
    findings.note(Fate::Acknowledged, StoredWrite::default(), || "lost".to_owned());
    findings.note(Fate::Acknowledged, StoredWrite::once(false), || "altered".to_owned());
    findings.note(Fate::Unknown, twice, || "doubled".to_owned());
    findings.note(Fate::Unsent, once, || "strange".to_owned());
    let named = Fault::ALL.map(|fault| findings.named(fault).collect::<Vec<_>>().join(" "));
    assert_eq!(named, ["lost", "altered", "doubled, 2 times", "strange"]);
    let said = findings.to_string();
    let wanted = "WRONG  3 acknowledged writes: 1 lost, 1 altered, 1 doubled, 1 strange\n";
    assert!(said.starts_with(wanted), "{said}");
    let told = findings.json();
    assert_eq!((&told["right"], &told["faults"]["lost"]["count"]), (&false.into(), &1.into()));
}

#[test]
fn a_terminal_shows_the_first_and_says_how_many_more_there_are() {
    let mut findings = Findings::default();
    for number in 0..30 {
        findings.fault(Fault::Lost, || format!("number {number}"));
    }
    let said = findings.to_string();
    assert!(said.contains("number 19\n") && !said.contains("number 20\n"), "{said}");
    assert!(said.ends_with("lost     and 10 more\n"), "{said}");
}
