//! What influxd 1.8.10 answers to the same, where 1.6.7 answers something else.

use crate::testing::TestStore;

use super::tests::answer;

fn store() -> TestStore {
    TestStore::with(concat!(
        "cpu,host=server01 value=100 1\n",
        "cpu,host=server01,region=uswest value=100 1\n",
        "cpu,host=server02,region=useast value=100 1\n",
        "gpu,host=server03,region=caeast value=100 1\n",
        "net,host=a,value=eu x=1 1\n",
        "net,host=b,region=eu,value=a x=1 1\n",
    ))
}

#[track_caller]
fn same(query: &str, expected: &[(&str, &str)]) {
    let series = |(name, values): &(&str, &str)| {
        format!(r#"{{"name":"{name}","columns":["key","value"],"values":[{values}]}}"#)
    };
    let all: Vec<String> = expected.iter().map(series).collect();
    let all =
        if all.is_empty() { String::new() } else { format!("\"series\":[{}]", all.join(",")) };
    assert_eq!(answer(&store(), query), all, "{query}");
}

#[test]
fn tag_values_where_value_is_said_are_those_values() {
    let hosts = "SHOW TAG VALUES WITH KEY = host WHERE ";
    let same = |condition: &str, expected: &[(&str, &str)]| {
        same(&format!("{hosts}{condition}"), expected);
    };
    same("value = 'server03'", &[("gpu", r#"["host","server03"]"#)]);
    same("value = 'no_such_value'", &[]);
    same("value = 5000", &[]);
    same(
        "value =~ /server0[13]/",
        &[("cpu", r#"["host","server01"]"#), ("gpu", r#"["host","server03"]"#)],
    );
    same(
        "value !~ /server0[13]/",
        &[("cpu", r#"["host","server02"]"#), ("net", r#"["host","a"],["host","b"]"#)],
    );
    same("value = 'server02' AND region = 'useast'", &[("cpu", r#"["host","server02"]"#)]);
    same("value = 'server02' AND region = 'uswest'", &[]);
    same(
        "(value = 'server01' OR value = 'server03')",
        &[("cpu", r#"["host","server01"]"#), ("gpu", r#"["host","server03"]"#)],
    );
}

#[test]
fn tag_values_where_value_is_a_tag_too_are_of_series_with_that_tag() {
    let net = "SHOW TAG VALUES FROM net WITH KEY =~ /./ WHERE ";
    same(&format!("{net} value = 'a'"), &[("net", r#"["value","a"]"#)]);
    same(&format!("{net} value =~ /^a$|^b$/"), &[("net", r#"["host","b"],["value","a"]"#)]);
}

#[test]
fn tag_values_of_keys_that_where_names_alone() {
    let all = "SHOW TAG VALUES FROM cpu, gpu WITH KEY =~ /./ WHERE ";
    same(
        &format!("{all} _tagKey = 'region' AND value =~ /^ca/"),
        &[("gpu", r#"["region","caeast"]"#)],
    );
    same("SHOW TAG VALUES WITH KEY = host WHERE _tagKey = 'region'", &[]);
    let wrong = "SHOW TAG VALUES WITH KEY = host WHERE _tagKey = 5";
    let text = "\"error\":\"right side of '=' must be a tag value string\"";
    assert_eq!(answer(&store(), wrong), text);
}

#[test]
fn a_name_where_a_text_was_meant_is_said_to_be_one() {
    let text = "bad WHERE clause for metaquery; one term must be a string literal tag value within \
                single quotes: host = server01";
    for what in ["TAG VALUES WITH KEY = host", "TAG KEYS", "TAG VALUES FROM no WITH KEY = host"] {
        let query = format!("SHOW {what} WHERE region = 'x' AND (host = \"server01\")");
        assert_eq!(answer(&store(), &query), format!("\"error\":\"{text}\""));
    }
}

#[test]
fn tag_keys_where_value_is_said_are_those_with_such_a_value() {
    let query = "SHOW TAG KEYS FROM cpu WHERE value = 'server01'";
    let keys = r#""series":[{"name":"cpu","columns":["tagKey"],"values":[["host"]]}]"#;
    assert_eq!(answer(&store(), query), keys);
}
