//! What the pages tell a reader to write and to type is taken out of them and tried, so that it
//! stays true: each configuration can be used, and the command line takes each command.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::ErrorKind;

use crate::cli::Weir;
use crate::config;
use crate::load::tests::begins;

/// Where the files lie that the pages' configurations name.
const ETC: &str = "/etc/weir/";

#[test]
fn every_configuration_in_the_pages_can_be_used() {
    let etc = tempfile::tempdir().unwrap();
    let etc = format!("{}/", etc.path().display());
    let made = rcgen::generate_simple_self_signed(vec!["weir".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.key_pair.serialize_pem());
    let content = |name: &str| match name.rsplit('.').next() {
        Some("pem") => certificate.clone(),
        Some("key") => key.clone(),
        _ => "secret\n".to_owned(),
    };
    let mut tried = 0;
    for (page, text) in pages() {
        let mut whole = String::new();
        for (line, word, block) in fenced(&text) {
            match word {
                "toml" => whole = block,
                // A part is what a reader adds to the file before it.
                "toml part" => whole.push_str(&block),
                _ => continue,
            }
            for (at, _) in whole.match_indices(ETC) {
                let name = whole[at + ETC.len()..].split('"').next().unwrap();
                fs::write(format!("{etc}{name}"), content(name)).unwrap();
            }
            let problems = config::problems(&whole.replace(ETC, &etc));
            assert!(problems.is_empty(), "{page}:{line}: {problems:?}");
            tried += 1;
        }
    }
    assert!(tried >= 8, "only {tried} configurations were found");
}

#[test]
fn the_command_line_takes_every_command_in_the_pages() {
    use ErrorKind::*;

    // What is set off is typed as it stands; within the text a command may be named alone.
    const TYPED: &[ErrorKind] = &[DisplayHelp, DisplayVersion];
    const NAMED: &[ErrorKind] = &[
        DisplayHelp,
        DisplayVersion,
        DisplayHelpOnMissingArgumentOrSubcommand,
        MissingRequiredArgument,
        MissingSubcommand,
    ];
    let mut tried = 0;
    for (page, text) in pages() {
        let typed = set_off(&text).into_iter().map(|(line, command)| (line, command, TYPED));
        let named = spans(&text).map(|(line, command)| (line, command.to_owned(), NAMED));
        for (line, command, allowed) in typed.chain(named) {
            for words in calls_of_weir(&command) {
                // A table of other programs' commands has no server of its own.
                let words = words
                    .iter()
                    .map(|word| if word == "URL" { "http://host" } else { word.as_str() });
                if let Err(error) = Weir::try_parse_from(words) {
                    assert!(allowed.contains(&error.kind()), "{page}:{line}: {command}\n{error}");
                }
                tried += 1;
            }
        }
    }
    assert!(tried >= 80, "only {tried} commands were found");
}

#[test]
fn the_loads_in_the_pages_begin() {
    let (mut files, mut calls) = (0, 0);
    for (page, text) in pages() {
        let mut known: Vec<(usize, String)> = vec![(0, "url = 'http://host'\n".to_owned())];
        let is_of_loads = page.starts_with("docs/load/") || page == "docs/jmeter.md";
        for (line, block) in indented(&text).filter(|_| is_of_loads) {
            let Ok(table) = block.parse::<toml::Table>() else { continue };
            let has_url = table.contains_key("url") || table.contains_key("load");
            // A part of a run file says nothing of where it leads.
            let file = if has_url { block } else { format!("url = 'http://host'\n{block}") };
            let run = ["run", "load.toml"].map(str::to_owned);
            begins(&run, &file).unwrap_or_else(|error| panic!("{page}:{line}: {error}\n{file}"));
            known.push((line, file));
            files += 1;
        }
        for (line, command) in set_off(&text) {
            let (_, file) = known.iter().rfind(|(before, _)| *before < line).unwrap();
            for words in calls_of_weir(&command) {
                let [_, load, words @ ..] = &words[..] else { continue };
                if load == "load" && !words.iter().any(|word| word.contains("help")) {
                    let error = |error| panic!("{page}:{line}: {command}\n{error}\n{file}");
                    begins(words, file).unwrap_or_else(error);
                    calls += 1;
                }
            }
        }
    }
    assert!(files >= 4 && calls >= 20, "only {files} run files and {calls} calls were found");
}

#[test]
fn the_sampler_in_the_page_is_the_one_that_was_measured() {
    let page = fs::read_to_string(root().join("docs/jmeter.md")).unwrap();
    let sampler =
        fs::read_to_string(root().join("tests/clients/jmeter/DubboSampler.java")).unwrap();
    let shown = fenced(&page).into_iter().filter(|(_, word, _)| *word == "java");
    assert_eq!(shown.map(|(.., block)| block).collect::<Vec<_>>(), [sampler]);
}

#[test]
fn make_knows_every_target_in_the_pages() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let targets: Vec<&str> =
        makefile.lines().filter_map(|line| Some(line.split_once(':')?.0)).collect();
    let mut tried = 0;
    for (page, text) in pages() {
        let named = spans(&text).map(|(line, command)| (line, command.to_owned()));
        for (line, command) in set_off(&text).into_iter().chain(named) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let ["make", target, ..] = words[..] else { continue };
            assert!(targets.contains(&target), "{page}:{line}: no target {target}");
            tried += 1;
        }
    }
    assert!(tried >= 8, "only {tried} targets were found");
}

#[test]
fn calls_are_found_in_what_a_shell_reads() {
    let golden: [(&str, &[&[&str]]); 6] = [
        ("weir check          # what it would do", &[&["weir", "check"]]),
        ("weir check --from a.ini > weir.toml", &[&["weir", "check", "--from", "a.ini"]]),
        ("target/release/weir query 'a | b'", &[&["weir", "query", "a | b"]]),
        ("runuser -u weir -- weir journal forget a", &[&["weir", "journal", "forget", "a"]]),
        ("weir export | weir import -; x", &[&["weir", "export"], &["weir", "import", "-"]]),
        ("weir hash-password     asks on a terminal", &[&["weir", "hash-password"]]),
    ];
    for (command, expected) in golden {
        assert_eq!(calls_of_weir(command), expected, "{command}");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages with their names, but for those that speak of commands of old and of some to come, and
/// those about the inside.
fn pages() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root(), root().join("docs")];
    let below = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    folders.extend(below.filter(|path| path.is_dir() && !path.ends_with("internals")));
    for dir in folders {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
            if name.ends_with(".md") && !["CHANGELOG.md", "ROADMAP.md"].contains(&&*name) {
                found.push((name, fs::read_to_string(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// The fenced blocks: the line each begins at, the words behind its fence, its text.
fn fenced(text: &str) -> Vec<(usize, &str, String)> {
    let mut found = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((line, begin)) = lines.next() {
        if let Some(word) = begin.trim_start().strip_prefix("```") {
            let block = lines.by_ref().map(|(_, line)| line);
            let block = block.take_while(|line| !line.trim_start().starts_with("```"));
            found.push((line, word, block.map(|line| format!("{line}\n")).collect()));
        }
    }
    found
}

/// The blocks that an indent sets off, without calls of Weir: the line each begins at, its text.
fn indented(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_within = false;
    for (number, line) in (1..).zip(text.lines()) {
        let inner = line.strip_prefix("    ").filter(|inner| !inner.starts_with("weir "));
        match (inner, found.last_mut()) {
            (Some(inner), Some((_, block))) if is_within => {
                block.push_str(&format!("{inner}\n"));
            }
            (Some(inner), _) => {
                found.push((number, format!("{inner}\n")));
                is_within = true;
            }
            (None, Some((_, block))) if is_within && line.is_empty() => block.push('\n'),
            (None, _) => is_within = false,
        }
    }
    found.into_iter()
}

/// The lines that are set off from the text, in a block or by an indent, with their numbers. One
/// that ends with a backslash goes on in the next.
fn set_off(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut in_block = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block || line.starts_with("    ") {
            match found.last_mut().filter(|(_, before)| before.ends_with('\\')) {
                Some((_, before)) => {
                    before.pop();
                    before.push_str(line.trim_start());
                }
                None => found.push((number, line.trim().to_owned())),
            }
        }
    }
    found
}

/// The spans of code within the text, with the numbers of their lines.
fn spans(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with("    "));
    lines.flat_map(|(number, line)| line.split('`').skip(1).step_by(2).map(move |s| (number, s)))
}

/// The words of each call of Weir in a command of a shell.
fn calls_of_weir(command: &str) -> Vec<Vec<String>> {
    // In the reference words of explanation follow, far behind the command.
    let command = command.split("   ").next().unwrap_or_default();
    let words = words(command);
    let mut found = Vec::new();
    for part in words.split(|word| ["|", "&&", ";"].contains(&word.as_str())) {
        let part = match part {
            [other_user, _, _, _, rest @ ..] if other_user == "runuser" => rest,
            as_it_is => as_it_is,
        };
        let Some((_, arguments)) = part.split_first().filter(|(name, _)| is_weir(name)) else {
            continue;
        };
        let given = arguments.iter().take_while(|word| !["<", ">"].contains(&word.as_str()));
        found.push(std::iter::once("weir".to_owned()).chain(given.cloned()).collect());
    }
    found
}

/// The words of a command, those that separate commands among them, without quotes and comments.
fn words(command: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut quote = None;
    for letter in command.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, ' ') => found.push(String::new()),
            (None, ';') => found.extend([";".to_owned(), String::new()]),
            (None, '#') if found.last().is_some_and(String::is_empty) => break,
            _ => found.last_mut().unwrap().push(letter),
        }
    }
    found.retain(|word| !word.is_empty());
    found
}

fn is_weir(program: &str) -> bool {
    ["weir", "target/release/weir"].contains(&program)
}
