use std::fs;
use std::path::Path;
use std::time::SystemTime;

use clap::Parser;
use meter::workload::Workload as _;

use crate::load::Command;
use crate::load::inputs::Inputs;
use crate::load::workload::WorkloadOptions;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    command: Command,
}

/// The first requests of a load, or why it can't be made.
fn requests(words: &[&str]) -> Result<Vec<String>, String> {
    let line =
        Line::try_parse_from(["load"].iter().chain(words)).map_err(|error| error.to_string())?;
    of(&line.command)
}

fn of(command: &Command) -> Result<Vec<String>, String> {
    let WorkloadOptions::Http(options) = &command.options else { panic!("{command:?}") };
    let inputs = Inputs::of_machine(SystemTime::now());
    let http = options.workload(&command.url, &inputs, 1);
    let mut http = http.map_err(|error| error.to_string())?;
    let request = |number| {
        let mut out = Vec::new();
        http.request(number, &mut out);
        String::from_utf8(out).unwrap()
    };
    Ok((0..3).map(request).collect())
}

fn file(place: &Path, name: &str, text: &str) -> String {
    let path = place.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn data_targets_and_gaps_are_what_is_sent() {
    let place = tempfile::tempdir().unwrap();
    let csv = file(place.path(), "users.csv", "name,id\nann,7\nbob,8\n");
    let sent =
        requests(&["http://h/u/{{name}}?r={{random 5 5}}", "--data", &csv, "-H", "X: {{id}}"]);
    let sent = sent.unwrap();
    assert!(sent[1].starts_with("GET /u/bob?r=5 HTTP/1.1\r\nHost: h\r\n"), "{}", sent[1]);
    assert!(sent[0].contains("X: 7\r\n") && sent[2].starts_with("GET /u/ann?"));
    let body = file(place.path(), "body", "n={{name}}");
    let targets = format!("POST http://h/a\n@{body}\nGET http://ann:hush@h/b\nHEAD /c\nHost: x\n");
    let targets = file(place.path(), "targets", &targets);
    let args =
        ["http://h", "--targets", &targets, "-H", "X: 1", "--data", &format!("{csv}=random")];
    let sent = requests(&args).unwrap();
    assert!(sent[0].starts_with("POST /a ") && sent[0].contains("Content-Length: 5\r\n\r\nn="));
    assert!(
        sent[1].contains("Authorization: Basic YW5uOmh1c2g=\r\n") && sent[1].contains("X: 1\r\n")
    );
    assert!(sent[2].starts_with("HEAD /c HTTP/1.1\r\n") && sent[2].contains("Host: x\r\n"));
    // What is not an order belongs to the name of the file.
    let odd = file(place.path(), "a=b", "n\n1\n");
    assert!(requests(&["http://h/{{n}}", "--data", &odd]).is_ok());
    let literal = requests(&["http://h/", "--body", "{{n}}", "--literal"]).unwrap();
    assert!(literal[0].ends_with("\r\n\r\n{{n}}"));
}

#[test]
fn steps_are_the_same_in_a_file_of_their_own_and_in_a_run_file() {
    let place = tempfile::tempdir().unwrap();
    let steps = "[[step]]\nname = 'login'\nmethod = 'POST'\ntarget = '/login'\nheader = 'X: 2'\n\
                 body = '{{seq}}'\ntake = 'token = json /t'\ncheck = ['status 200', 'json /t']\n\
                 [[step]]\ntarget = '/cart/{{token}}'\n";
    let own = file(place.path(), "steps.toml", steps);
    let sent = requests(&["http://h", "--user-steps", &own, "-H", "X: 1", "-H", "Y: 1"]).unwrap();
    assert!(sent[2].starts_with("POST /login HTTP/1.1\r\n") && sent[2].ends_with("\r\n\r\n2"));
    assert!(
        sent[0].contains("X: 2\r\n") && sent[0].contains("Y: 1\r\n") && !sent[0].contains("X: 1")
    );
    let run = format!("url = 'http://h'\nheader = ['X: 1', 'Y: 1']\n{steps}");
    let command = crate::load::mix::alone(&run).unwrap();
    assert_eq!(of(&command).unwrap(), sent);
    let WorkloadOptions::Http(options) = &command.options else { panic!("{command:?}") };
    let described = options.described().to_string();
    assert!(described.contains("\"steps\":[\"login\",\"GET /cart/{{token}}\"]"), "{described}");
}

#[test]
fn what_is_wrong_in_a_load_of_http_is_told_with_its_place() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| file(place.path(), name, text);
    let csv = file("a.csv", "name\nann\n");
    let (short, elsewhere) = (file("b.csv", "a,b\n1\n"), file("t", "GET http://other/\n"));
    let (blank, gone) = (file("t2", "GET /a b\n"), file("t3", "GET /\n@/nowhere\n"));
    let steps = |name: &str, text: &str| file(name, &format!("[[step]]\ntarget = '/'\n{text}"));
    let (unknown, later) = (
        steps("s1", "chek = 'text a'\n"),
        steps("s2", "body = '{{id}}'\ntake = 'id = json /id'\n"),
    );
    let (bad, none) = (steps("s3", "check = ['stat 5']\n"), file("s4", "[[step]]\nname = 'a'\n"));
    let (other, empty) = (file("s5", "rate = 5\n[[step]]\ntarget = '/'\n"), file("s6", ""));
    for (words, part) in [
        (&["http://h/{{nme}}", "--data", &csv][..], "{{nme}} is neither a column"),
        (&["http://h/", "--data", "/nowhere.csv"], "the data /nowhere.csv: No such file"),
        (&["http://h/", "--data", &short], "b.csv: line 2: it has 1 values"),
        (&["http://h/", "--targets", "/nowhere"], "can't read the targets /nowhere"),
        (&["http://h/", "--targets", &elsewhere], "leads to another server"),
        (&["http://h/", "--targets", &blank], "must be percent-encoded"),
        (&["http://h/", "--targets", &gone], "line 2: its body /nowhere"),
        (&["http://h/a", "--targets", &elsewhere], "/a has no effect"),
        (&["http://h/", "--targets", &gone, "-X", "PUT"], "cannot be used with"),
        (
            &["http://h/", "--user-steps", &unknown],
            "step 1: line 3: there is no key \"chek\"; the nearest one is \"check\"",
        ),
        (&["http://h/", "--user-steps", &later], "{{id}} is neither a column"),
        (&["http://h/", "--user-steps", &bad], "step 1 (GET /): \"stat 5\" is not a check"),
        (&["http://h/", "--user-steps", &none], "step 1: missing field `target`"),
        (&["http://h/", "--user-steps", &other], "only [[step]]s belong there"),
        (&["http://h/", "--user-steps", &empty], "it has no [[step]]"),
        (&["http://h/", "--requests-per-connection", "0"], "0 is not in"),
        (&["http://h/", "--literal", "--data", &csv], "cannot be used with"),
        (&["http://h/", "-X", "CONNECT"], "opens no tunnel"),
        (&["http://h/", "--check", "json a"], "a JSON pointer begins with /"),
        (&["http://h/a b"], "blanks"),
    ] {
        let error = requests(words).unwrap_err();
        assert!(error.contains(part), "{words:?}: {error}");
    }
    let both = format!("url = 'http://h'\ntargets = '{gone}'\n[[step]]\ntarget = '/'\n");
    let command = crate::load::mix::alone(&both).unwrap();
    assert!(of(&command).unwrap_err().contains("targets, or the steps"));
    let both = "url = 'http://h'\nbody = 'a'\n[[step]]\ntarget = '/'\n";
    assert!(of(&crate::load::mix::alone(both).unwrap()).unwrap_err().contains("of their own"));
    assert!(
        crate::load::mix::alone("url = 'http://h'\nstep = 5\n")
            .err()
            .unwrap()
            .contains("is a table")
    );
}
