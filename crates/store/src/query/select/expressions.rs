//! Expressions as trees: walking them, and the names they give to columns.

use std::collections::HashMap;

use wire::influxql::ast::{Cast, Expr, Field, Select};

/// Whether it is a value that stands in the text.
pub(super) fn is_literal(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Number(_)
            | Expr::Integer(_)
            | Expr::Unsigned(_)
            | Expr::String(_)
            | Expr::Boolean(_)
            | Expr::Duration(_)
            | Expr::Time(_)
            | Expr::Regex(_)
    )
}

/// Whether the function works on single values.
pub(super) fn is_math(name: &str) -> bool {
    matches!(
        name,
        "abs"
            | "sin"
            | "cos"
            | "tan"
            | "asin"
            | "acos"
            | "atan"
            | "atan2"
            | "exp"
            | "log"
            | "ln"
            | "log2"
            | "log10"
            | "sqrt"
            | "pow"
            | "floor"
            | "ceil"
            | "round"
    )
}

/// Whether the function picks points.
pub(super) fn is_selector(name: &str) -> bool {
    matches!(name, "first" | "last" | "min" | "max" | "percentile" | "sample" | "top" | "bottom")
}

/// Whether the function ranks points, and may add columns.
pub(super) fn is_ranking(name: &str) -> bool {
    matches!(name, "top" | "bottom")
}

/// Calls `visit` for each node, those around first; it says whether to go on inside.
pub(super) fn walk<'a>(expr: &'a Expr, visit: &mut dyn FnMut(&'a Expr) -> bool) {
    if !visit(expr) {
        return;
    }
    match expr {
        Expr::Call { arguments, .. } => arguments.iter().for_each(|inner| walk(inner, visit)),
        Expr::Binary { left, right, .. } => {
            walk(left, visit);
            walk(right, visit);
        }
        Expr::Paren(inner) => walk(inner, visit),
        _ => {}
    }
}

/// Calls `change` for the type of each reference.
pub(super) fn each_reference(expr: &mut Expr, change: &mut dyn FnMut(&str, &mut Option<Cast>)) {
    match expr {
        Expr::Reference { name, cast } => change(name, cast),
        Expr::Call { arguments, .. } => {
            arguments.iter_mut().for_each(|inner| each_reference(inner, change));
        }
        Expr::Binary { left, right, .. } => {
            each_reference(left, change);
            each_reference(right, change);
        }
        Expr::Paren(inner) => each_reference(inner, change),
        _ => {}
    }
}

/// The name a field gives its column, before names are told apart.
pub(super) fn field_name(field: &Field) -> String {
    field.alias.clone().unwrap_or_else(|| expression_name(&field.expr))
}

fn expression_name(expr: &Expr) -> String {
    match expr {
        Expr::Call { name, .. } | Expr::Reference { name, .. } => name.clone(),
        Expr::Paren(inner) => expression_name(inner),
        Expr::Binary { .. } => {
            let mut names = Vec::new();
            walk(expr, &mut |inner| match inner {
                Expr::Reference { name, .. } => {
                    names.push(name.as_str());
                    true
                }
                Expr::Call { name, .. } => {
                    names.push(name.as_str());
                    false
                }
                _ => true,
            });
            names.join("_")
        }
        _ => String::new(),
    }
}

/// The tags and fields that `top()` or `bottom()` adds as columns.
pub(super) fn ranking_columns(expr: &Expr) -> &[Expr] {
    match expr {
        Expr::Call { name, arguments } if is_ranking(name) && arguments.len() > 2 => {
            &arguments[1..arguments.len() - 1]
        }
        _ => &[],
    }
}

/// The names of what `top()` or `bottom()` ranks by, wherever in the fields it is called; there is
/// one such call at most.
pub(super) fn ranking_tags(select: &Select) -> Vec<String> {
    let mut tags = Vec::new();
    for field in &select.fields {
        walk(&field.expr, &mut |inner| {
            for tag in ranking_columns(inner) {
                if let Expr::Reference { name, .. } = tag {
                    tags.push(name.clone());
                }
            }
            true
        });
    }
    tags
}

/// The names of all columns but the time, each once: `mean`, `mean_1`.
pub(super) fn column_names(select: &Select, time: Option<&str>) -> Vec<String> {
    let mut wanted: Vec<(Option<&str>, String)> = Vec::new();
    for field in &select.fields {
        wanted.push((field.alias.as_deref(), field_name(field)));
        if select.target.is_none() {
            let added = ranking_columns(&field.expr).iter();
            wanted.extend(added.map(|one| (None, expression_name(one))));
        }
    }

    // The time's name is not kept free, as in InfluxDB.
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (alias, _) in &wanted {
        if let Some(alias) = alias {
            seen.insert((*alias).to_owned(), 1);
        }
    }
    let mut names: Vec<String> = time.map(str::to_owned).into_iter().collect();
    for (alias, name) in wanted {
        names.push(if alias.is_some() { name } else { distinguish(name, &mut seen) });
    }
    names
}

/// The name itself, or with the first number that makes it new.
fn distinguish(name: String, seen: &mut HashMap<String, usize>) -> String {
    let Some(&count) = seen.get(&name) else {
        seen.insert(name.clone(), 1);
        return name;
    };
    let mut number = count;
    loop {
        let numbered = format!("{name}_{number}");
        if !seen.contains_key(&numbered) {
            seen.insert(name, number + 1);
            seen.insert(numbered.clone(), 1);
            return numbered;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str) -> Field {
        let argument = Expr::Reference { name: "v".into(), cast: None };
        Field { expr: Expr::Call { name: name.into(), arguments: vec![argument] }, alias: None }
    }

    #[test]
    fn columns_of_one_name_are_numbered_and_aliases_keep_theirs() {
        let fields = vec![call("mean"), call("mean"), call("max"), call("mean")];
        let mut select = Select { fields, ..Select::default() };
        select.fields[2].alias = Some("mean_1".into());
        let names = column_names(&select, Some("time"));
        assert_eq!(names, ["time", "mean", "mean_2", "mean_1", "mean_3"]);
    }

    #[test]
    fn a_sum_is_named_after_its_parts() {
        let (left, right) = (Box::new(call("max").expr), Box::new(call("min").expr));
        let expr = Expr::Binary { op: wire::influxql::ast::Op::Subtract, left, right };
        assert_eq!(expression_name(&Expr::Paren(Box::new(expr))), "max_min");
    }
}
