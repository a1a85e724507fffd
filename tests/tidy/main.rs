//! The house rules that a program can check, each with its reason. What a compiler or clippy knows
//! better (unused code, `unwrap`, `unsafe`) is left to them and to the lints in `Cargo.toml`.

mod decisions;
mod items;
mod layers;
mod modules;
mod pages;
mod reading;
mod rooms;
mod source;
mod tokens;
mod voice;

use std::path::Path;

use pages::Page;
use source::{Source, texts};

/// Shows everything found at once, so that one run is enough to put it right.
#[track_caller]
fn none(reason: &str, found: impl IntoIterator<Item = String>) {
    let found: Vec<String> = found.into_iter().collect();
    assert!(found.is_empty(), "{reason}\n  {}", found.join("\n  "));
}

/// Lines of our own code which `wrong` names something in.
fn lines(sources: &[Source], wrong: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        for (number, line) in source.code.lines().enumerate() {
            if let Some(what) = wrong(line) {
                found.push(format!("{}:{}: {what}", source.path.display(), number + 1));
            }
        }
    }
    found
}

#[test]
fn a_file_is_one_idea_that_can_be_read_in_one_sitting() {
    const LINES_MAX: usize = 500;
    let long = Source::all().into_iter().filter(|s| s.code.lines().count() > LINES_MAX);
    none(
        "past 400 lines ask what second idea has moved in; 500 is the end of it",
        long.map(|s| format!("{} has {} lines", s.path.display(), s.code.lines().count())),
    );
}

#[test]
fn a_function_fits_on_a_screen() {
    const LINES_MAX: usize = 70;
    let mut long = Vec::new();
    for source in Source::all() {
        for (number, name, length) in source.functions() {
            if length > LINES_MAX {
                long.push(format!("{}:{number}: {name} has {length} lines", source.path.display()));
            }
        }
    }
    none("what does not fit on a screen is two functions", long);
}

#[test]
fn lines_can_be_read_side_by_side() {
    const COLUMNS_MAX: usize = 100;
    let long = lines(&Source::all(), |line| {
        let columns = line.chars().count();
        (columns > COLUMNS_MAX).then(|| format!("{columns} columns"))
    });
    none(
        "two files side by side need lines of 100 columns; rustfmt leaves text and comments",
        long,
    );
}

#[test]
fn pages_can_be_read_and_compared_as_text() {
    const COLUMNS_MAX: usize = 120;
    let mut long = Vec::new();
    for page in Page::all() {
        for (number, columns) in page.long_lines(COLUMNS_MAX) {
            long.push(format!("{}:{number}: {columns} columns", page.path.display()));
        }
    }
    none("120 columns; but tables, blocks of code and links can't be broken", long);
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let dead = pages::dead_links(&Page::all());
    none("a link names a file of this tree, and a heading that is there", dead);
}

#[test]
fn the_first_page_is_read_in_a_minute() {
    const LINES_MAX: usize = 120;
    let pages = Page::all();
    let first = pages.iter().find(|page| page.path == Path::new("README.md"));
    assert!(first.is_some_and(|page| page.length() <= LINES_MAX), "README.md has too many lines");
}

#[test]
fn the_page_of_the_architecture_is_short_and_has_few_words() {
    const WORDS_MAX: usize = 20;
    const BYTES_MAX: usize = 10_240;
    let pages = Page::all();
    let page = pages.iter().find(|page| page.path == Path::new("ARCHITECTURE.md")).unwrap();
    assert!(page.bytes() <= BYTES_MAX, "ARCHITECTURE.md has {} bytes", page.bytes());

    let words = page.rows("## Words");
    assert!(!words.is_empty() && words.len() <= WORDS_MAX, "{} words", words.len());
    let unclear = words.iter().filter(|row| row.len() != 3 || row.contains(&""));
    none("each word has what it is and what it is not", unclear.map(|row| row.join(" | ")));
}

#[test]
fn a_decision_says_why_and_what_it_costs() {
    let pages = Page::all();
    let internals = pages.iter().filter(|page| page.path.starts_with("docs/internals"));
    let texts: Vec<&str> = internals.flat_map(|page| page.paragraphs()).collect();
    let decisions = texts.into_iter().filter(|text| text.starts_with("**"));
    let long = decisions.filter(|text| {
        let lines: Vec<&str> = text.lines().collect();
        !matches!(lines[..], [_, why, costs]
            if why.starts_with("- *Why:*") && costs.starts_with("- *Costs:*"))
    });
    none("a decision is what, why and what it costs, a line each", long.map(str::to_owned));
}

#[test]
fn what_is_decided_is_decided_in_a_file_that_is_there() {
    let tables = decisions::Table::all();
    assert!(tables.len() >= 8, "only {} crates say where things are decided", tables.len());
    let absent = tables.iter().flat_map(decisions::Table::absent_files);
    none("the table below the header of a crate leads to files", absent);
}

#[test]
fn names_say_what_a_thing_is() {
    const EMPTY_WORDS: [&str; 4] = ["Manager", "Helper", "Util", "Utils"];
    let found = lines(&Source::all(), |line| {
        let defined = ["struct ", "enum ", "trait ", "type "].iter().find_map(|keyword| {
            let (before, after) = line.split_once(keyword)?;
            let starts = before.trim_start().is_empty() || before.trim_start().starts_with("pub");
            let name = after.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
            starts.then_some(name)
        })?;
        EMPTY_WORDS.iter().any(|word| defined.ends_with(word)).then(|| defined.to_owned())
    });
    none("such a name says what a thing is made of, or nothing at all", found);
    let files = Source::all().into_iter().filter(|source| {
        let stem = source.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        ["util", "utils", "helper", "helpers", "manager", "common", "misc"].contains(&stem.as_str())
    });
    none("a file is named for its idea", files.map(|s| s.path.display().to_string()));
}

#[test]
fn a_reader_can_search_for_a_name_and_learn_from_a_comment() {
    none(
        "name a type by a noun of its domain; delete a comment that says nothing, or write what \
         the name cannot say",
        voice::faults(),
    );
}

#[test]
fn nothing_is_put_off() {
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let calls = [concat!("to", "do!("), concat!("unimpl", "emented!(")];
    let found = lines(&Source::all(), |line| {
        let word = words
            .iter()
            .find(|word| line.split(|c: char| !c.is_alphanumeric()).any(|part| part == **word));
        word.or_else(|| calls.iter().find(|call| line.contains(**call))).map(|w| (*w).to_owned())
    });
    none("what is not done is an issue, not a note that nobody reads", found);
}

#[test]
fn no_merge_is_left_half_done() {
    let mut found = Vec::new();
    for (path, text) in texts() {
        let is_mark = |line: &str| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ");
        for (number, _) in text.lines().enumerate().filter(|(_, line)| is_mark(line)) {
            found.push(format!("{}:{}", path.display(), number + 1));
        }
    }
    none("decide for one side, or write what both mean", found);
}

#[test]
fn production_code_does_not_panic_block_or_print() {
    let banned: [(&str, &str); 7] = [
        (".unwrap()", "a panic ends a worker; return an error"),
        ("thread::sleep(", "a worker or a runtime's thread stands still; wait for what is awaited"),
        ("println!(", "standard output belongs to the command that was asked for; use tracing"),
        ("print!(", "standard output belongs to the command that was asked for; use tracing"),
        ("dbg!(", "left behind"),
        ("unbounded_channel", "a limit on everything: give the channel one"),
        ("std::process::exit", "skips destructors; return from main"),
    ];
    // The program's last words on standard error, a prompt on a terminal, the bench's tables.
    let may_print = ["crates/weir/src/exit.rs", "crates/weir/src/password.rs", "bench/"];
    let mut found = Vec::new();
    for source in Source::production() {
        let path = source.path.display().to_string();
        let mut above = "";
        for (number, line) in source.untested().lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for (call, reason) in banned {
                let prints =
                    call.contains("print") && may_print.iter().any(|p| path.starts_with(p));
                let explained = above.trim_start().starts_with("// ") && call != ".unwrap()";
                if code.contains(call) && !prints && !explained {
                    found.push(format!("{path}:{}: {call} {reason}", number + 1));
                }
            }
            above = line;
        }
    }
    none("write another way, or the reason in a comment right above (never for unwrap)", found);
}

#[test]
fn an_exception_from_a_lint_has_its_reason() {
    let mut found = Vec::new();
    for source in Source::all() {
        let code = source.code.replace('\n', " ");
        // In two parts, so that this file does not find itself.
        let attribute = format!("[{}(", "allow");
        for (at, _) in code.match_indices(&attribute) {
            let end = code[at..].find(")]").map_or(code.len(), |end| at + end);
            if !code[at..end].contains("reason") {
                found.push(format!("{}: {}", source.path.display(), &code[at..end]));
            }
        }
    }
    none("write why the lint is wrong here: reason = \"...\"", found);
}

#[test]
fn every_crate_opens_with_what_it_is_for() {
    const LINES_MAX: usize = 15;
    let roots = Source::all().into_iter().filter(|s| s.path.ends_with("src/lib.rs"));
    let wrong = roots.filter_map(|root| {
        let lines = root.code.lines().take_while(|line| line.starts_with("//!")).count();
        let path = root.path.display();
        (lines == 0 || lines >= LINES_MAX)
            .then(|| format!("{path} opens with {lines} lines of //!"))
    });
    none("what it is for, what it never does, the one path through it: in under 15 lines", wrong);
}

#[test]
fn no_comment_has_code_that_nobody_runs() {
    // In two parts, so that this file does not find itself.
    let fence = ["``", "`"].concat();
    let libraries = Source::all().into_iter().filter(|source| source.path.starts_with("crates"));
    let sources: Vec<Source> = libraries.collect();
    let found = lines(&sources, |line| {
        let comment = line.trim_start();
        let is_doc = comment.starts_with("///") || comment.starts_with("//!");
        (is_doc && comment.contains(&fence)).then(|| "a code block".to_owned())
    });
    none("show it in a test: the libraries say `doctest = false`, which saves their links", found);
}

#[test]
fn every_file_is_part_of_a_program() {
    let dead = modules::unreachable_files();
    none("no `mod` leads to it, so it is neither compiled nor tested", dead);
}

#[test]
fn a_module_takes_only_from_those_below_it() {
    let faults = layers::faults();
    none("move it down to where it belongs; what stands in a circle can't be lifted out", faults);
}

#[test]
fn rooms_that_decide_do_nothing_else() {
    let faults = rooms::faults();
    none("what reads, waits or looks at a clock can't be tried in every order", faults);
}

#[test]
fn records_come_into_the_journal_of_influxdb_by_one_way() {
    const CALLS: [&str; 4] =
        ["append_if(", "appender.append(", "append_from_anywhere(", "Appender"];
    const ADMISSION: &str = "crates/influx/src/admission/";
    let mut found = Vec::new();
    for source in Source::production() {
        let path = source.path.display().to_string();
        if !path.starts_with("crates/influx/src/") || path.starts_with(ADMISSION) {
            continue;
        }
        for (number, line) in source.untested().lines().enumerate() {
            if let Some(call) = CALLS.iter().find(|call| line.contains(**call)) {
                found.push(format!("{path}:{}: {call}", number + 1));
            }
        }
    }
    none("names, room and types are asked for in `admission`, once for all ways in", found);
}

#[test]
fn nothing_depends_on_one_machine() {
    // In two parts, so that this file does not find itself.
    let machine =
        [("/ho", "me/"), ("/ro", "ot/"), ("/wo", "rk/"), ("/Us", "ers/"), ("/tmp/tar", "get")];
    let hosts = [
        ("crates", ".io/api"),
        ("static.crates", ".io"),
        ("index.crates", ".io"),
        ("registry.npm", "js"),
        ("py", "pi.org"),
        ("deb.deb", "ian.org"),
        ("proxy.gol", "ang"),
    ];
    let mut found = Vec::new();
    for (path, text) in texts() {
        for (first, second) in machine.iter().chain(&hosts) {
            let word = format!("{first}{second}");
            for (number, _) in text.lines().enumerate().filter(|(_, line)| line.contains(&word)) {
                found.push(format!("{}:{}: {word}", path.display(), number + 1));
            }
        }
    }
    none("a tree builds anywhere, from whatever registry its user has configured", found);
}
