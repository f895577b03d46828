//! EXPLAIN.

use crate::plan::{
    Access, Body, Core, JoinKind, OutputColumn, Plan, RangeAccess, Relation, Select, Source,
};
use crate::session::Response;
use crate::types::{DataType, Datum};

/// The column of an explanation.
pub(crate) fn columns() -> Vec<OutputColumn> {
    vec![OutputColumn { name: "QUERY PLAN".to_owned(), ty: DataType::Text, origin: (0, 0) }]
}

/// How a statement is run.
pub(crate) fn explain(plan: &Plan) -> Response {
    let mut lines = Lines(Vec::new());
    match plan {
        Plan::Select(select) => lines.select(select, 0),
        Plan::Insert(insert) => {
            lines.add(0, format!("Insert on {}", insert.table.name));
            lines.select(&insert.source, 1);
        }
        Plan::Modify(modify) => {
            let what = if modify.set.is_some() { "Update" } else { "Delete" };
            lines.add(0, format!("{what} on {}", modify.table.name));
            lines.relations(&modify.relations, 1);
        }
    }
    let rows: Vec<_> = lines.0.into_iter().map(|line| vec![Datum::Text(line)]).collect();
    let tag = "EXPLAIN".to_owned();
    Response::Rows { columns: columns(), rows, tag }
}

struct Lines(Vec<String>);

impl Lines {
    fn add(&mut self, depth: usize, text: String) {
        let arrow = if depth == 0 { String::new() } else { format!("{}->  ", "  ".repeat(depth)) };
        self.0.push(arrow + &text);
    }

    fn select(&mut self, select: &Select, mut depth: usize) {
        if select.limit.is_some() || select.offset.is_some() {
            self.add(depth, "Limit".to_owned());
            depth += 1;
        }
        if !select.sort.is_empty() {
            let keys = select.sort.iter().map(|key| {
                let descending = if key.descending { " descending" } else { "" };
                match key.expr {
                    crate::expr::Expr::Column(place) => format!("output {}{descending}", place + 1),
                    _ => format!("expression{descending}"),
                }
            });
            self.add(depth, format!("Sort by {}", keys.collect::<Vec<_>>().join(", ")));
            depth += 1;
        }
        match &select.body {
            Body::Core(core) => self.core(core, depth),
            Body::Values(rows) => self.add(depth, format!("Values, {} rows", rows.len())),
            Body::Set { operation, all, left, right } => {
                let all = if *all { " all" } else { "" };
                self.add(depth, format!("{operation:?}{all}"));
                self.select(left, depth + 1);
                self.select(right, depth + 1);
            }
        }
    }

    fn core(&mut self, core: &Core, mut depth: usize) {
        if core.distinct || core.distinct_on.is_some() {
            self.add(depth, "Unique".to_owned());
            depth += 1;
        }
        if let Some(grouping) = &core.grouping {
            let name = if grouping.by.is_empty() { "Aggregate" } else { "Group and aggregate" };
            self.add(depth, name.to_owned());
            depth += 1;
        }
        match &*core.relations {
            [] => self.add(depth, "Result".to_owned()),
            relations => self.relations(relations, depth),
        }
    }

    fn relations(&mut self, relations: &[Relation], mut depth: usize) {
        if relations.len() > 1 {
            self.add(depth, format!("Join of {} sources, in this order", relations.len()));
            depth += 1;
        }
        for relation in relations {
            let name = match (&relation.source, &*relation.name) {
                (Source::Table { table, .. }, name) if name != table.name => {
                    format!("{} {name}", table.name)
                }
                (_, name) => name.to_owned(),
            };
            let filter = match relation.on.len() + relation.after.len() {
                0 => String::new(),
                1 => ", 1 condition checked".to_owned(),
                count => format!(", {count} conditions checked"),
            };
            let join = match (relation.join, relation.offset, relation.hash.len()) {
                (JoinKind::Left, _, 0) => "Left join: ",
                (JoinKind::Left, ..) => "Left hash join: ",
                (JoinKind::Inner, 1.., 1..) => "Hash join: ",
                (JoinKind::Inner, ..) => "",
            };
            self.add(depth, format!("{join}{}{filter}", access_of(&relation.source, &name)));
            if let Source::Derived(select) = &relation.source {
                self.select(select, depth + 1);
            }
        }
    }
}

fn access_of(source: &Source, name: &str) -> String {
    let (table, access, for_update) = match source {
        Source::Table { table, access, for_update } => (table, access, for_update),
        Source::System(_) => return format!("Catalog scan on {name}"),
        Source::Derived(_) => return format!("Subquery {name}"),
        Source::Series(_) => return format!("Function scan on {name}"),
    };
    let by = |index: &Option<usize>| match index {
        Some(index) => format!("index {}", table.indexes[*index].name),
        None => table.primary.as_ref().map_or("hidden key".to_owned(), |key| key.name.clone()),
    };
    let locked = if *for_update { ", for update" } else { "" };
    match access {
        Access::Points { index, keys } => {
            let count =
                if keys.len() == 1 { "Point".to_owned() } else { format!("{} points", keys.len()) };
            format!("{count} lookup on {name} using {}{locked}", by(index))
        }
        Access::Range(range) => {
            let RangeAccess { index, equal, low, high, reverse } = range;
            let backward = if *reverse { ", backward" } else { "" };
            if equal.is_empty() && low.is_none() && high.is_none() && index.is_none() {
                return format!("Seq scan on {name}{backward}{locked}");
            }
            let bounds = usize::from(low.is_some()) + usize::from(high.is_some());
            let (using, equal) = (by(index), equal.len());
            format!(
                "Range scan on {name} using {using}, {equal} equal columns, {bounds} \
                 bounds{backward}{locked}"
            )
        }
    }
}
