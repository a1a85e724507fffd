//! Queries made at random out of what is harmless and what is not, in every place of a query.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngSeed, TestRunner};

/// So many different queries, the same in every run.
pub fn queries(count: usize) -> Vec<String> {
    let config = Config { rng_seed: RngSeed::Fixed(20_260_101), ..Config::default() };
    let mut runner = TestRunner::new(config);
    let query = query();
    let mut made = Vec::new();
    for _ in 0..count {
        made.push(query.new_tree(&mut runner).unwrap().current());
    }
    made.sort();
    made.dedup();
    made
}

/// Relations; all have a column `id`, and are called `x` wherever they stand.
fn relation() -> BoxedStrategy<String> {
    let harmless = ["t", "public.t", "\"t\"", "T", "v_good", "m_good", "u", "guarded_good"];
    let traps =
        ["v_bad", "public . v_bad", "V_Bad", "\"v_bad\"", "v_deep", "guarded", "only v_bad"];
    prop_oneof![
        8 => prop::sample::select(harmless.to_vec()),
        1 => prop::sample::select(traps.to_vec()),
    ]
    .prop_map(str::to_owned)
    .boxed()
}

/// What a column may be called without quotes behind `as`.
fn label() -> BoxedStrategy<String> {
    let labels = ["n", "from", "where", "as", "select", "into", "union", "\"from\"", "join", "on"];
    prop::sample::select(labels.to_vec()).prop_map(str::to_owned).boxed()
}

fn gap() -> BoxedStrategy<String> {
    let gaps = [" ", "", "\n", " /* ; */ ", "/**/", " -- '\n"];
    prop::sample::select(gaps.to_vec()).prop_map(str::to_owned).boxed()
}

/// Whole numbers where there is a relation `x`.
fn leaf() -> BoxedStrategy<String> {
    let harmless = [
        "1",
        "x.id",
        "x . id",
        "(x).id",
        "null::int",
        "length('a''b')",
        "length($q$;'$q$)",
        "length(E'\\'')",
        "honest(2)",
        "\"x\".\"id\"",
        "length(current_user)",
        "2::dom_good",
    ];
    let traps = [
        "vol_set",
        "vol_set1(1)",
        "x.attr",
        "(x).attr",
        "x.where",
        "x.attr_any",
        "lies_sql()",
        "1::dom",
        "dom '1'",
        "length(upper('a'))",
        "\"vol_set\"()",
        "nextval('s')::int",
        "x . \"where\"",
        "(x.*).attr",
        "lies_dynamic()",
    ];
    prop_oneof![
        12 => prop::sample::select(harmless.to_vec()).prop_map(str::to_owned),
        1 => prop::sample::select(traps.to_vec()).prop_map(str::to_owned),
        1 => gap().prop_map(|gap| format!("vol_set{gap}()")),
    ]
    .boxed()
}

fn expression() -> BoxedStrategy<String> {
    leaf()
        .prop_recursive(4, 12, 2, |inner| {
            let two = (inner.clone(), inner.clone());
            prop_oneof![
                two.clone().prop_map(|(a, b)| format!("({a} + {b})")),
                two.clone().prop_map(|(a, b)| format!("coalesce({a}, {b})")),
                two.clone().prop_map(|(a, b)| format!("case when {a} > {b} then 1 else 2 end")),
                two.clone().prop_map(|(a, b)| format!("(array[{a}, {b}])[1]")),
                two.clone().prop_map(|(a, b)| format!("({a} in ({b}))::int")),
                two.clone().prop_map(|(a, b)| format!("({a} is distinct from {b})::int")),
                two.clone().prop_map(|(a, b)| format!("({a} between {b} and 3)::int")),
                inner.clone().prop_map(|a| format!("cast({a} as numeric(9, 2))::int")),
                inner.clone().prop_map(|a| format!("honest({a})")),
                inner.clone().prop_map(|a| format!("length(trim(both from ({a})::text))")),
                inner
                    .clone()
                    .prop_map(|a| format!("extract(day from date '2024-01-01' + {a})::int")),
                inner.clone().prop_map(|a| format!("(select {a})")),
                (inner.clone(), relation(), label())
                    .prop_map(|(a, r, l)| format!("(select {a} as {l} from {r} as x limit 1)")),
                (inner.clone(), relation())
                    .prop_map(|(a, r)| format!("exists (select {a} from {r} x)::int")),
                (inner.clone(), relation()).prop_map(|(a, r)| format!(
                    "(with c(id) as (select {a} from {r} x) select max(x.id) from c x)::int"
                )),
            ]
        })
        .boxed()
}

fn query() -> BoxedStrategy<String> {
    let parts = (expression(), expression(), relation(), relation(), label());
    let tail = prop::sample::select(
        &["", "", "", " for update", " for key share", " limit 2", ";", "; select vol_set()"][..],
    );
    (parts, 0..14usize, tail)
        .prop_map(|((a, b, r, s, l), form, tail)| {
            let body = match form {
                0 => format!("select {a} as {l} from {r} x"),
                1 => format!("select {a} as {l}, {b} from {r} as x where {b} > 0"),
                2 => format!("select {a} from {r} x, {s} y"),
                3 => format!("select {a} from {r} x join {s} y on {b} is not null"),
                4 => format!("select {a} from {r} x left join {s} y using (id)"),
                5 => format!("select {a} from ({r} x cross join {s} y)"),
                6 => format!("select {a} from (select * from {r}) x order by {b}"),
                7 => format!("with c as (select {b} as id from {r} x) select {a} from c x, {s} y"),
                8 => format!("select {a} from {r} x union all (select {b} from {s} x)"),
                9 => format!("select {a} from {r} x, lateral (select {b} as {l} from {s} y) z"),
                10 => format!("select sum({a}) over (order by {b}) from {r} x"),
                11 => format!("explain select {a} from {r} x"),
                12 => format!("select * from {r} x where exists (table {s}) and {a} > 0"),
                _ => format!("select {a} from {r} x, generate_series({b}, 2) as g(n)"),
            };
            format!("{body}{tail}")
        })
        .boxed()
}
