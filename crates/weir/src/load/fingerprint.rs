//! The fingerprint of what a part sends and its results do not keep: logins, values of headers,
//! bodies, steps, and the contents of files. Parts of one run have the same one.
//!
//! A part's results may be read by people who must not learn its secrets. A short password could be
//! guessed from a plain hash, so the hash is made by Argon2, with the run's id and start as salt:
//! each guess costs as much as for a password that is stored.

use std::fmt::Write as _;
use std::time::SystemTime;

use argon2::Argon2;
use sha2::{Digest, Sha256};

use super::Command;
use super::inputs::Inputs;
use super::run::NamedLoad;
use super::workload::WorkloadOptions;
use crate::exit::Failure;

/// Bytes of a fingerprint.
const LEN: usize = 16;

/// The fingerprint of loads that have been made with these inputs; nothing where they are not a
/// part of a run.
///
/// # Errors
/// There is no memory for it.
pub fn fingerprint(named: &[NamedLoad<'_>], inputs: &Inputs) -> Result<Option<String>, Failure> {
    let shared = named.first().map(|(_, first)| &first.shared);
    let Some((shared, run_id)) = shared.and_then(|of| Some((of, of.run_id.as_ref()?))) else {
        return Ok(None);
    };
    if shared.part.is_none() {
        return Ok(None);
    }
    let mut sent = Fields::default();
    named.iter().for_each(|(_, command)| sent.add_load(command, inputs));
    for (name, digest) in inputs.digests() {
        sent.add(name.as_bytes()).add(&digest);
    }
    let start = shared.start_at.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    let mut salt = Fields::default();
    salt.add(run_id.as_bytes()).add(&start.unwrap_or_default().as_secs().to_le_bytes());
    let mut out = [0; LEN];
    let hashed = Argon2::default().hash_password_into(&sent.digest(), &salt.digest(), &mut out);
    hashed.map_err(|error| Failure::other(format!("what is sent can't be hashed: {error}")))?;
    let mut text = String::new();
    for byte in out {
        // Writing to memory does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(Some(text))
}

/// A hash of fields, each with its length, so that no two lists of fields are the same bytes.
#[derive(Default)]
struct Fields(Sha256);

impl Fields {
    fn add(&mut self, field: &[u8]) -> &mut Self {
        self.0.update((field.len() as u64).to_le_bytes());
        self.0.update(field);
        self
    }

    fn add_text(&mut self, text: Option<&str>) -> &mut Self {
        self.add(&[u8::from(text.is_some())]).add(text.unwrap_or_default().as_bytes())
    }

    /// Adds what a load sends of its own, files aside.
    fn add_load(&mut self, command: &Command, inputs: &Inputs) {
        let Command { options, url, means, .. } = command;
        self.add_text(url.user()).add_text(url.password()).add(url.target().as_bytes());
        self.add(&[u8::from(means.insecure)]);
        self.add(&options.headers().len().to_le_bytes());
        for (name, value) in options.headers() {
            self.add(name.as_bytes()).add(value.as_bytes());
        }
        match options {
            WorkloadOptions::Http(of) => {
                self.add_text(of.body.as_deref()).add(format!("{:?}", of.steps).as_bytes());
            }
            WorkloadOptions::Postgres(_) => {
                // What the URL does not say.
                let login = inputs.login();
                let user = url.user().is_none().then_some(&*login.user);
                let password = login.password.as_deref().filter(|_| url.password().is_none());
                self.add_text(user).add_text(password);
            }
            WorkloadOptions::Dubbo(of) => {
                self.add(of.secrets().as_bytes());
            }
            WorkloadOptions::InfluxWrite(_) | WorkloadOptions::Redis(_) => {}
        }
    }

    fn digest(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, UNIX_EPOCH};

    use clap::Parser;
    use meter::engine::Stop;

    use super::fingerprint;
    use crate::load::inputs::Inputs;
    use crate::load::run::MadeLoads;
    use crate::load::{Command, mix};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        command: Command,
    }

    fn of_command(command: &Command) -> Option<String> {
        let named = [("load".to_owned(), command)];
        let inputs = Inputs::of_machine(UNIX_EPOCH + Duration::from_secs(1));
        // What is sent is read when the loads are made.
        MadeLoads::new(&named, &inputs, &Stop::default(), None).unwrap();
        fingerprint(&named, &inputs).unwrap()
    }

    fn of(words: &[&str]) -> String {
        let start = ["--run-id", "night", "--start-at", "2023-11-14T22:13:20Z"];
        let words = [&["load"], words, &start].concat();
        let print = of_command(&Line::try_parse_from(words).unwrap().command).unwrap();
        assert_eq!(print.len(), 32, "{print}");
        print
    }

    #[test]
    fn parts_of_one_run_have_the_same_fingerprint_and_a_run_alone_has_none() {
        let words = |part| ["http://ann:hush@h/write?db=d", "--body", "m f=1", "--part", part];
        assert_eq!(of(&words("1/2")), of(&words("2/2")));
        let alone = Line::try_parse_from(["load", "http://h"]).unwrap().command;
        assert_eq!(of_command(&alone), None);
    }

    #[test]
    fn whatever_is_sent_and_not_kept_makes_another_fingerprint() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("body");
        fs::write(&file, "one").unwrap();
        let (file_body, url) = (format!("@{}", file.display()), "http://h/write?p=hush");
        let ca = place.path().join("ca.pem");
        let rcgen = |ca: &std::path::Path| {
            let made = rcgen::generate_simple_self_signed(["h".to_owned()]).unwrap();
            fs::write(ca, made.cert.pem()).unwrap();
        };
        rcgen(&ca);
        let tls = ["https://h", "--part", "1/2", "--ca", ca.to_str().unwrap()];
        let from_file = [url, "--part", "1/2", "--body", &file_body];
        let mut prints = vec![
            of(&[url, "--part", "1/2"]),
            of(&["http://h/write?p=push", "--part", "1/2"]),
            of(&["http://ann:hush@h/write?p=hush", "--part", "1/2"]),
            of(&[url, "--part", "1/2", "-H", "Authorization: hush"]),
            of(&[url, "--part", "1/2", "-H", "Authorization: push"]),
            of(&[url, "--part", "1/2", "--body", "hush"]),
            of(&[url, "--part", "1/2", "--body", "push"]),
            of(&from_file),
            of(&tls),
        ];
        fs::write(&file, "two").unwrap();
        rcgen(&ca);
        prints.extend([of(&from_file), of(&tls)]);
        let count = prints.len();
        prints.sort();
        prints.dedup();
        assert_eq!(prints.len(), count, "each is another one");
    }

    #[test]
    fn steps_of_a_run_file_are_in_the_fingerprint() {
        let of_text = |body: &str| {
            let text = format!(
                "url = 'http://h'\npart = '1/2'\nrun-id = 'a'\nstart-at = '2023-11-14T22:13:20Z'\n\
                 [[step]]\nname = 'x'\ntarget = '/x'\nbody = '{body}'\n"
            );
            of_command(&mix::alone(&text).unwrap())
        };
        assert_ne!(of_text("hush"), of_text("push"));
    }
}
