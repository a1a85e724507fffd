use serde_json::json;
use wire::influxql;
use wire::influxql::ast::Statement;

use super::*;

fn select(sql: &str) -> Select {
    let statements = influxql::parse(sql, &influxql::Params::default()).unwrap();
    match statements.into_iter().next() {
        Some(Statement::Select(select)) => *select,
        _ => panic!("{sql}"),
    }
}

fn folds(sql: &str) -> Result<Vec<Fold>, &'static str> {
    let select = select(sql);
    columns(&select.fields)
}

/// The rows of a query without windows, of those of sets.
fn folded(sql: &str, parts: &[Value]) -> Value {
    let series = |row: &Value| json!([{ "name": "m", "columns": ["time", "p0"], "values": row }]);
    let part = |row: &Value| json!({ "series": series(row) });
    let parts = parts.iter().map(part).collect();
    let answer = Rows::of(&select(sql)).folded(parts, &folds(sql).unwrap(), Epoch::Units(1));
    answer.get("series").map_or_else(|| answer.clone(), |series| series[0]["values"].clone())
}

#[test]
fn what_cannot_be_folded_is_refused_for_a_reason() {
    for (sql, words) in [
        ("SELECT v FROM m", "points of several sets"),
        ("SELECT max(v) + 1 FROM m", "points of several sets"),
        ("SELECT *, max(v) FROM m", "points of several sets"),
        ("SELECT median(v) FROM m", "other than"),
        ("SELECT max(v) + median(v) FROM m", "other than"),
        ("SELECT difference(first(v)) FROM m GROUP BY time(1m)", "other than"),
        ("SELECT difference(v) FROM m", "other than"),
        ("SELECT abs(max(v) - 1), host FROM m", "points of several sets"),
        ("SELECT distinct(v) FROM m", "order of the times"),
        ("SELECT DISTINCT v FROM m", "order of the times"),
        ("SELECT difference(distinct(v)) FROM m GROUP BY time(1m)", "order of the times"),
        ("SELECT count(distinct(v)) FROM m", "more than one field"),
        ("SELECT mean(*) FROM m", "more than one field"),
        ("SELECT first(v) FROM m", "other than"),
    ] {
        let error = folds(sql).map(drop).unwrap_err();
        assert!(error.contains(words), "{sql}: {error}");
    }
}

#[test]
fn columns_are_named_as_by_one_server() {
    let names = |sql: &str| -> Vec<String> {
        folds(sql).unwrap().into_iter().map(|fold| fold.name).collect()
    };
    assert_eq!(
        names("SELECT max(v), max(w), max(v), mean(v) AS x FROM m"),
        ["max", "max_1", "max_2", "x"]
    );
    assert_eq!(
        names("SELECT max(v) AS a, min(v) AS a, sum(v), sum(w) AS sum FROM m"),
        ["a", "a", "sum_1", "sum"]
    );
}

#[test]
fn of_equal_points_the_one_counts_that_one_server_would_choose() {
    for (sql, parts, wanted) in [
        (
            "SELECT max(v) FROM m",
            vec![json!([[7, 3]]), json!([[5, 3]]), json!([[1, 2]])],
            json!([[5, 3]]),
        ),
        (
            "SELECT min(v) FROM m",
            vec![json!([[7, 3]]), json!([[5, 3.5]]), json!([[6, 3]])],
            json!([[6, 3]]),
        ),
        // Zeros are equal.
        ("SELECT max(v) FROM m", vec![json!([[2, 0]]), json!([[1, -0.0]])], json!([[1, -0.0]])),
        ("SELECT min(v) FROM m", vec![json!([[4, -0.0]]), json!([[3, 0]])], json!([[3, 0]])),
        (
            "SELECT sum(v) FROM m",
            vec![json!([[0, 1.5]]), json!([[0, 2]]), json!([[0, 0.5]])],
            json!([[0, 4]]),
        ),
        (
            "SELECT mean(v) FROM m",
            vec![json!([[0, 1.5, 2]]), json!([[0, null, 0]]), json!([[0, 4, 2]])],
            json!([[0, 2.75]]),
        ),
        (
            "SELECT spread(v) FROM m",
            vec![json!([[0, 1, 3, 4]]), json!([[0, 4, -1, 3]])],
            json!([[0, 5]]),
        ),
    ] {
        assert_eq!(folded(sql, &parts), wanted, "{sql}");
    }
}

#[test]
fn a_sum_past_its_type_and_an_answer_that_is_not_whole_are_errors() {
    let much = json!([[0, i64::MAX]]);
    let sum = folded("SELECT sum(v) FROM m", &[much.clone(), much]);
    assert_eq!(sum["error"], "a sum is past int64");
    let few = folded("SELECT mean(v) FROM m", &[json!([[0, 1]]), json!([[0, 1]])]);
    assert!(few["error"].as_str().unwrap().contains("other columns"), "{few}");
    let part = json!({ "series": [{ "name": "m", "partial": true, "values": [] }] });
    let answer = Rows::of(&select("SELECT v FROM m")).joined(vec![json!({}), part], Epoch::Text);
    assert!(answer["error"].as_str().unwrap().contains("not whole"), "{answer}");
}

#[test]
fn times_are_told_in_the_unit_that_was_asked_for() {
    let part = json!({ "series": [{ "name": "m", "values": [[1_500_000_001_i64, 1]] }] });
    for (epoch, wanted) in [
        ("", json!("1970-01-01T00:00:01.500000001Z")),
        ("ns", json!(1_500_000_001_i64)),
        ("u", json!(1_500_000)),
        ("ms", json!(1_500)),
        ("s", json!(1)),
        ("m", json!(0)),
    ] {
        let epoch = Epoch::read(epoch).unwrap();
        let answer = Rows::of(&select("SELECT v FROM m")).joined(vec![part.clone()], epoch);
        assert_eq!(answer["series"][0]["values"][0][0], wanted);
    }
    assert_eq!(Epoch::read("d"), None);
}

#[test]
fn columns_and_tags_that_a_set_lacks_are_those_of_all() {
    let part = |tags: Value, columns: Value, row: Value| {
        let series = json!({ "name": "m", "tags": tags, "columns": columns, "values": [row] });
        json!({ "series": [series] })
    };
    let parts = vec![
        part(json!({"host": "b"}), json!(["time", "v", "x"]), json!([1, 2, 3])),
        part(json!({"host": "a", "rack": "r"}), json!(["time", "a", "v"]), json!([5, 6, 7])),
    ];
    let rows = Rows::of(&select("SELECT * FROM m GROUP BY *"));
    let answer = rows.joined(parts.clone(), Epoch::Units(1));
    let series = &answer["series"];
    assert_eq!(series[0]["columns"], json!(["time", "a", "v", "x"]));
    assert_eq!(series[0]["values"], json!([[5, 6, 7, null]]));
    assert_eq!(series[1]["values"], json!([[1, null, 2, 3]]));
    assert_eq!(series[1]["tags"], json!({"host": "b", "rack": ""}));
    // What is named is the same in all sets.
    let rows = Rows::of(&select("SELECT v FROM m GROUP BY host"));
    assert_eq!(rows.joined(parts, Epoch::Units(1))["series"][1]["values"], json!([[1, 2, 3]]));
}

#[test]
fn times_are_told_as_in_the_zone_of_the_query() {
    let part = |time: i64| json!({ "series": [{ "name": "m", "values": [[time, 1]] }] });
    let summer = 1_593_561_600_500_000_000;
    for (zone, wanted) in [
        ("Europe/Berlin", "2020-07-01T02:00:00.5+02:00"),
        ("America/St_Johns", "2020-06-30T21:30:00.5-02:30"),
        ("", "2020-07-01T00:00:00.5Z"),
    ] {
        let rows = Rows::of(&select(&format!("SELECT v FROM m tz('{zone}')")));
        let answer = rows.joined(vec![part(summer)], Epoch::Text);
        assert_eq!(answer["series"][0]["values"][0][0], wanted);
    }
}

#[test]
fn groups_are_counted_in_the_order_in_which_one_server_counts_them() {
    let part =
        |tags: Value| json!({ "series": [{ "name": "m", "tags": tags, "values": [[1, 1]] }] });
    let parts = vec![
        part(json!({"core": "", "host": "c", "region": "us"})),
        part(json!({"core": "0", "host": "d", "region": ""})),
    ];
    let hosts = |limits: &str| {
        let rows = Rows::of(&select(&format!("SELECT v FROM m GROUP BY * {limits}")));
        let answer = rows.joined(parts.clone(), Epoch::Units(1));
        let series = answer["series"].as_array().cloned().unwrap_or_default();
        series
            .iter()
            .map(|one| one["tags"]["host"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(hosts(""), ["c", "d"]);
    assert_eq!(hosts("SLIMIT 1"), ["d"]);
    assert_eq!(hosts("SLIMIT 1 SOFFSET 1"), ["c"]);
    assert!(hosts("SOFFSET 1").is_empty());
}
