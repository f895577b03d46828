//! Queries.

use sqlparser::ast;

use super::cast::Use;
use super::{Binder, ScopeColumn, access, name_of, relation_of};
use crate::error::{Result, SqlError, state};
use crate::expr::Expr;
use crate::plan::{
    Access, Body, Core, Grouping, JoinKind, OutputColumn, RangeAccess, Relation, Select,
    SetOperation, SortKey, Source,
};
use crate::system;
use crate::types::{DataType, Datum};

/// Sources of one query at most.
const MAX_RELATIONS: usize = 16;

impl Binder<'_> {
    /// Binds a query.
    pub(crate) fn query(&mut self, query: &ast::Query) -> Result<Select> {
        self.deeper(|binder| binder.query_here(query))
    }

    fn query_here(&mut self, query: &ast::Query) -> Result<Select> {
        let refused = [
            (query.for_clause.is_some(), "FOR XML or JSON"),
            (query.settings.is_some(), "SETTINGS"),
            (query.format_clause.is_some(), "FORMAT"),
            (!query.pipe_operators.is_empty(), "a pipe"),
        ];
        if let Some((_, what)) = refused.iter().find(|(is_there, _)| *is_there) {
            return Err(SqlError::unsupported(what));
        }
        let known = self.with.len();
        if let Some(with) = &query.with {
            if with.recursive {
                return Err(SqlError::unsupported("WITH RECURSIVE"));
            }
            for cte in &with.cte_tables {
                if !cte.alias.columns.is_empty() {
                    return Err(SqlError::unsupported("WITH and names of columns"));
                }
                self.with.push((name_of(&cte.alias.name), (*cte.query).clone().into()));
            }
        }
        let done = self.body(query);
        self.with.truncate(known);
        done
    }

    fn body(&mut self, query: &ast::Query) -> Result<Select> {
        let order = match &query.order_by {
            None => &[][..],
            Some(ast::OrderBy {
                kind: ast::OrderByKind::Expressions(order),
                interpolate: None,
            }) => &**order,
            Some(_) => return Err(SqlError::unsupported("ORDER BY ALL")),
        };
        let mut select = match &*query.body {
            ast::SetExpr::Select(select) => {
                let for_update = self.locks(&query.locks)?;
                let has_limit = query.limit_clause.is_some() || query.fetch.is_some();
                self.select(select, order, (for_update, has_limit))?
            }
            other if query.locks.is_empty() => {
                let mut select = self.set_expr(other)?;
                select.sort = self.sort_by_output(&select.columns, order)?;
                select
            }
            _ => return Err(SqlError::unsupported("FOR UPDATE of such a query")),
        };
        let (limit, offset) = self.limits(query)?;
        let bounds = limit.iter().chain(&offset);
        let is_outer = |part: &Expr| matches!(part, Expr::Outer(..) | Expr::Subquery(..));
        select.correlated |= bounds.into_iter().any(|expr| expr.any(&is_outer));
        (select.limit, select.offset) = (limit, offset);
        Ok(select)
    }

    fn locks(&mut self, locks: &[ast::LockClause]) -> Result<bool> {
        for lock in locks {
            if lock.nonblock.is_some() {
                return Err(SqlError::unsupported("NOWAIT or SKIP LOCKED"));
            }
        }
        // Reads are locked for reading anyway.
        Ok(locks.iter().any(|lock| lock.lock_type == ast::LockType::Update))
    }

    fn limits(&mut self, query: &ast::Query) -> Result<(Option<Expr>, Option<Expr>)> {
        let (mut limit, offset) = match &query.limit_clause {
            None => (None, None),
            Some(ast::LimitClause::LimitOffset { limit, offset, limit_by }) => {
                if !limit_by.is_empty() {
                    return Err(SqlError::unsupported("LIMIT BY"));
                }
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(ast::LimitClause::OffsetCommaLimit { .. }) => {
                let message = "LIMIT #,# syntax is not supported";
                return Err(SqlError::new(state::SYNTAX_ERROR, message)
                    .with_hint("Use separate LIMIT and OFFSET clauses."));
            }
        };
        if let Some(fetch) = &query.fetch {
            if fetch.with_ties || fetch.percent || limit.is_some() {
                return Err(SqlError::unsupported("such a FETCH"));
            }
            limit = fetch.quantity.as_ref();
        }
        let mut count = |expr: Option<&ast::Expr>| -> Result<Option<Expr>> {
            let Some(expr) = expr else { return Ok(None) };
            // It reads no columns of the query.
            let (bound, _) = self.within(Vec::new(), |binder| {
                let (expr, from) = binder.expr(expr)?;
                binder.converted(expr, from, DataType::Int8, Use::Assignment)
            })?;
            Ok(Some(bound))
        };
        Ok((count(limit)?, count(offset)?))
    }

    fn set_expr(&mut self, body: &ast::SetExpr) -> Result<Select> {
        self.deeper(|binder| match body {
            ast::SetExpr::Select(select) => binder.select(select, &[], (false, true)),
            ast::SetExpr::Query(query) => binder.query(query),
            ast::SetExpr::Values(values) => binder.values(values),
            ast::SetExpr::SetOperation { left, op, set_quantifier, right } => {
                let operation = match op {
                    ast::SetOperator::Union => SetOperation::Union,
                    ast::SetOperator::Except => SetOperation::Except,
                    ast::SetOperator::Intersect => SetOperation::Intersect,
                    ast::SetOperator::Minus => return Err(SqlError::unsupported("MINUS")),
                };
                let all = match set_quantifier {
                    ast::SetQuantifier::All => true,
                    ast::SetQuantifier::None | ast::SetQuantifier::Distinct => false,
                    other => return Err(SqlError::unsupported(other)),
                };
                if all && operation != SetOperation::Union {
                    return Err(SqlError::unsupported("EXCEPT ALL or INTERSECT ALL"));
                }
                binder.set_operation(operation, all, left, right)
            }
            ast::SetExpr::Table(_) => Err(SqlError::unsupported("TABLE")),
            _ => Err(SqlError::unsupported("a change within a query")),
        })
    }

    fn set_operation(
        &mut self,
        operation: SetOperation,
        all: bool,
        left: &ast::SetExpr,
        right: &ast::SetExpr,
    ) -> Result<Select> {
        let (mut left, mut right) = (self.set_expr(left)?, self.set_expr(right)?);
        if left.columns.len() != right.columns.len() {
            let message =
                "each UNION, EXCEPT or INTERSECT query must have the same number of columns";
            return Err(SqlError::new(state::SYNTAX_ERROR, message));
        }
        let mut types = Vec::new();
        for (one, other) in left.columns.iter().zip(&right.columns) {
            types.push(super::cast::common(one.ty, other.ty).ok_or_else(|| {
                let message = format!("UNION types {} and {} cannot be matched", one.ty, other.ty);
                SqlError::new(state::DATATYPE_MISMATCH, message)
            })?);
        }
        convert(&mut left, &types)?;
        convert(&mut right, &types)?;
        let columns =
            left.columns.iter().map(|column| OutputColumn { origin: (0, 0), ..column.clone() });
        Ok(Select {
            columns: columns.collect(),
            correlated: left.correlated || right.correlated,
            body: Body::Set { operation, all, left: Box::new(left), right: Box::new(right) },
            sort: Vec::new(),
            limit: None,
            offset: None,
        })
    }

    fn values(&mut self, values: &ast::Values) -> Result<Select> {
        let width = values.rows.first().map_or(0, |row| row.len());
        let mut columns: Vec<Vec<(Expr, DataType)>> = vec![Vec::new(); width];
        let ((), correlated) = self.within(Vec::new(), |binder| {
            for row in &values.rows {
                if row.len() != width {
                    let message = "VALUES lists must all be the same length";
                    return Err(SqlError::new(state::SYNTAX_ERROR, message));
                }
                for (column, value) in columns.iter_mut().zip(row.iter()) {
                    column.push(binder.expr(value)?);
                }
            }
            Ok(())
        })?;
        let count = values.rows.len();
        let mut rows: Vec<Vec<Expr>> = vec![Vec::with_capacity(width); count];
        let mut output = Vec::with_capacity(width);
        for (number, column) in columns.into_iter().enumerate() {
            let (exprs, ty) = self.unify("VALUES", column)?;
            rows.iter_mut().zip(exprs).for_each(|(row, expr)| row.push(expr));
            output.push(OutputColumn { name: format!("column{}", number + 1), ty, origin: (0, 0) });
        }
        Ok(Select {
            body: Body::Values(rows),
            sort: Vec::new(),
            limit: None,
            offset: None,
            columns: output,
            correlated,
        })
    }

    fn select(
        &mut self,
        select: &ast::Select,
        order: &[ast::OrderByExpr],
        (for_update, has_limit): (bool, bool),
    ) -> Result<Select> {
        check_select(select)?;
        let from = self.from(&select.from, for_update)?;
        let Sources { mut relations, columns, conditions, correlated: outside } = from;
        let (bound, correlated) = self.within(columns.clone(), |binder| {
            let mut conditions = conditions;
            if let Some(selection) = &select.selection {
                conditions.extend(binder.condition(selection)?.conjuncts());
            }
            let constant = access::place(&mut relations, conditions);
            let mut outputs = binder.outputs(select, &columns, order)?;
            let grouping = binder.grouping(select, &mut outputs)?;
            Ok((constant, outputs, grouping))
        })?;
        let (constant, outputs, grouping) = bound;
        let Outputs { mut exprs, columns: output, mut sort, distinct_on } = outputs;
        let width = output.len();
        let mut is_sorted = sort.is_empty();
        let can_follow = grouping.is_none() && select.distinct.is_none() && !sort.is_empty();
        if can_follow && access::follow_order(&mut relations, &sort, &exprs, has_limit) {
            is_sorted = true;
            sort.clear();
            exprs.truncate(width);
        }
        let distinct = matches!(select.distinct, Some(ast::Distinct::Distinct));
        if distinct && exprs.len() > width {
            let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
            return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message));
        }
        let core = Core {
            relations,
            constant,
            grouping,
            output: exprs,
            width,
            distinct,
            distinct_on,
            is_sorted,
        };
        Ok(Select {
            body: Body::Core(Box::new(core)),
            sort,
            limit: None,
            offset: None,
            columns: output,
            correlated: correlated || outside,
        })
    }

    /// Binds ORDER BY of a query whose columns alone can be sorted by.
    fn sort_by_output(
        &mut self,
        columns: &[OutputColumn],
        order: &[ast::OrderByExpr],
    ) -> Result<Vec<SortKey>> {
        let mut sort = Vec::new();
        for key in order {
            let Some(place) = output_place(&key.expr, columns, columns.len())? else {
                return Err(SqlError::unsupported("ORDER BY an expression over a UNION or VALUES"));
            };
            sort.push(sort_key(Expr::Column(place), &key.options));
        }
        Ok(sort)
    }
}

/// Expressions of a result, and what it is sorted by.
struct Outputs {
    /// Those of the result, and behind them those that are only sorted by.
    exprs: Vec<Expr>,
    columns: Vec<OutputColumn>,
    sort: Vec<SortKey>,
    distinct_on: Option<Vec<usize>>,
}

/// FROM, and the conditions of its inner joins.
pub(super) struct Sources {
    pub(super) relations: Vec<Relation>,
    pub(super) columns: Vec<ScopeColumn>,
    pub(super) conditions: Vec<Expr>,
    /// Whether a source reads columns of queries around this one.
    pub(super) correlated: bool,
}

fn check_select(select: &ast::Select) -> Result<()> {
    let refused = [
        (select.top.is_some(), "TOP"),
        (select.into.is_some(), "SELECT INTO"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW"),
        (select.prewhere.is_some(), "PREWHERE"),
        (!select.connect_by.is_empty(), "CONNECT BY"),
        (!select.cluster_by.is_empty(), "CLUSTER BY"),
        (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
        (!select.sort_by.is_empty(), "SORT BY"),
        (!select.named_window.is_empty(), "WINDOW"),
        (select.qualify.is_some(), "QUALIFY"),
        (select.exclude.is_some(), "EXCLUDE"),
        (select.value_table_mode.is_some(), "SELECT AS"),
    ];
    match refused.iter().find(|(is_there, _)| *is_there) {
        Some((_, what)) => Err(SqlError::unsupported(what)),
        None => Ok(()),
    }
}

/// The column of the result that ORDER BY or GROUP BY names: by its place or its name.
fn output_place(expr: &ast::Expr, columns: &[OutputColumn], count: usize) -> Result<Option<usize>> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, _) => {
                let place =
                    digits.parse::<usize>().ok().filter(|place| (1..=count).contains(place));
                let wrong = || {
                    let message = format!("position {digits} is not in select list");
                    SqlError::new(state::INVALID_COLUMN_REFERENCE, message)
                };
                Ok(Some(place.ok_or_else(wrong)? - 1))
            }
            _ => Ok(None),
        },
        ast::Expr::Identifier(ident) => {
            let name = name_of(ident);
            Ok(columns.iter().position(|column| column.name == name))
        }
        _ => Ok(None),
    }
}

fn sort_key(expr: Expr, options: &ast::OrderByOptions) -> SortKey {
    let descending = matches!(options.sort, Some(ast::OrderBySort::Desc));
    SortKey { expr, descending, nulls_first: options.nulls_first.unwrap_or(descending) }
}

impl Binder<'_> {
    fn outputs(
        &mut self,
        select: &ast::Select,
        scope: &[ScopeColumn],
        order: &[ast::OrderByExpr],
    ) -> Result<Outputs> {
        self.scope().aggregates = Some(Vec::new());
        let (mut exprs, columns) = self.projection(&select.projection, scope)?;
        let mut sort = Vec::new();
        for key in order {
            let place = match output_place(&key.expr, &columns, columns.len())? {
                Some(place) => place,
                None => {
                    let (expr, _) = self.expr(&key.expr)?;
                    place_of(&mut exprs, expr)
                }
            };
            sort.push(sort_key(Expr::Column(place), &key.options));
        }
        let distinct_on = match &select.distinct {
            Some(ast::Distinct::On(on)) => {
                let mut places = Vec::new();
                for expr in on {
                    places.push(match output_place(expr, &columns, columns.len())? {
                        Some(place) => place,
                        None => {
                            let (expr, _) = self.expr(expr)?;
                            place_of(&mut exprs, expr)
                        }
                    });
                }
                Some(places)
            }
            _ => None,
        };
        Ok(Outputs { exprs, columns, sort, distinct_on })
    }

    /// Binds what a result consists of.
    pub(super) fn projection(
        &mut self,
        items: &[ast::SelectItem],
        scope: &[ScopeColumn],
    ) -> Result<(Vec<Expr>, Vec<OutputColumn>)> {
        let (mut exprs, mut columns) = (Vec::new(), Vec::new());
        for item in items {
            match item {
                ast::SelectItem::UnnamedExpr(expr) => {
                    let name = output_name(expr);
                    self.push_output(expr, name, (&mut exprs, &mut columns), scope)?;
                }
                ast::SelectItem::ExprWithAlias { expr, alias } => {
                    let name = name_of(alias);
                    self.push_output(expr, name, (&mut exprs, &mut columns), scope)?;
                }
                ast::SelectItem::Wildcard(options) => {
                    check_wildcard(options)?;
                    if scope.iter().all(|column| column.hidden) {
                        let message = "SELECT * with no tables specified is not valid";
                        return Err(SqlError::new(state::SYNTAX_ERROR, message));
                    }
                    push_all(scope, None, &mut exprs, &mut columns);
                }
                ast::SelectItem::QualifiedWildcard(kind, options) => {
                    check_wildcard(options)?;
                    let ast::SelectItemQualifiedWildcardKind::ObjectName(name) = kind else {
                        return Err(SqlError::unsupported("such a wildcard"));
                    };
                    let (_, relation) = relation_of(name)?;
                    let before = exprs.len();
                    push_all(scope, Some(&relation), &mut exprs, &mut columns);
                    if exprs.len() == before {
                        let message = format!("missing FROM-clause entry for table \"{relation}\"");
                        return Err(SqlError::new(state::UNDEFINED_TABLE, message));
                    }
                }
                other => return Err(SqlError::unsupported(format_args!("the output {other}"))),
            }
        }
        Ok((exprs, columns))
    }

    fn push_output(
        &mut self,
        expr: &ast::Expr,
        name: String,
        (exprs, columns): (&mut Vec<Expr>, &mut Vec<OutputColumn>),
        scope: &[ScopeColumn],
    ) -> Result<()> {
        let (expr, ty) = self.expr(expr)?;
        let to = if ty == DataType::Unknown { DataType::Text } else { ty };
        let expr = self.converted(expr, ty, to, Use::Implicit)?;
        let origin = match &expr {
            Expr::Column(place) => scope.get(*place).map_or((0, 0), |column| column.origin),
            _ => (0, 0),
        };
        // A parameter may have got its type here.
        exprs.push(expr);
        columns.push(OutputColumn { name, ty: to, origin });
        Ok(())
    }

    fn grouping(
        &mut self,
        select: &ast::Select,
        outputs: &mut Outputs,
    ) -> Result<Option<Grouping>> {
        let by = match &select.group_by {
            ast::GroupByExpr::Expressions(by, modifiers) if modifiers.is_empty() => by,
            _ => return Err(SqlError::unsupported("GROUP BY ALL, ROLLUP or CUBE")),
        };
        let having = select.having.as_ref().map(|having| self.condition(having)).transpose()?;
        let aggregates = self.scope().aggregates.take().unwrap_or_default();
        if by.is_empty() && aggregates.is_empty() && having.is_none() {
            return Ok(None);
        }
        let mut keys = Vec::with_capacity(by.len());
        for expr in by {
            // A column of the query goes before one of the result.
            let key = match self.expr(expr) {
                Ok((key, _)) if !matches!(key, Expr::Const(_)) => key,
                bound => match output_place(expr, &outputs.columns, outputs.columns.len())? {
                    Some(place) => outputs.exprs[place].clone(),
                    None => bound?.0,
                },
            };
            if key.any(&|part| matches!(part, Expr::Aggregate(_))) {
                let message = "aggregate functions are not allowed in GROUP BY";
                return Err(SqlError::new(state::GROUPING_ERROR, message));
            }
            keys.push(key);
        }
        let names = self.scope().columns.clone();
        for expr in &mut outputs.exprs {
            regroup(expr, &keys, &names)?;
        }
        let having = match having {
            Some(mut having) => {
                regroup(&mut having, &keys, &names)?;
                Some(having)
            }
            None => None,
        };
        Ok(Some(Grouping { by: keys, aggregates, having }))
    }
}

/// Makes an expression over rows one over groups.
fn regroup(expr: &mut Expr, keys: &[Expr], names: &[ScopeColumn]) -> Result<()> {
    if let Some(place) = keys.iter().position(|key| key == expr) {
        *expr = Expr::Column(place);
        return Ok(());
    }
    match expr {
        Expr::Aggregate(number) => {
            *expr = Expr::Column(keys.len() + *number);
            Ok(())
        }
        Expr::Column(place) => {
            let column = &names[*place];
            let relation =
                column.relation.as_ref().map_or(String::new(), |name| format!("{name}."));
            let message = format!(
                "column \"{relation}{}\" must appear in the GROUP BY clause or be used in an \
                 aggregate function",
                column.name
            );
            Err(SqlError::new(state::GROUPING_ERROR, message))
        }
        Expr::Subquery(plan, _) if plan.correlated => {
            Err(SqlError::unsupported("a query that reads columns of a grouped one"))
        }
        other => {
            let mut done = Ok(());
            other.parts_mut(&mut |part| {
                if done.is_ok() {
                    done = regroup(part, keys, names);
                }
            });
            done
        }
    }
}

/// The place of an expression, behind the others if it is new.
fn place_of(exprs: &mut Vec<Expr>, expr: Expr) -> usize {
    exprs.iter().position(|other| *other == expr).unwrap_or_else(|| {
        exprs.push(expr);
        exprs.len() - 1
    })
}

fn check_wildcard(options: &ast::WildcardAdditionalOptions) -> Result<()> {
    match options.to_string().is_empty() {
        true => Ok(()),
        false => Err(SqlError::unsupported(format_args!("*{options}"))),
    }
}

fn push_all(
    scope: &[ScopeColumn],
    relation: Option<&str>,
    exprs: &mut Vec<Expr>,
    columns: &mut Vec<OutputColumn>,
) {
    for (place, column) in scope.iter().enumerate() {
        let is_of = relation.is_none_or(|relation| column.relation.as_deref() == Some(relation));
        if is_of && !column.hidden {
            exprs.push(Expr::Column(place));
            let (name, ty, origin) = (column.name.clone(), column.ty, column.origin);
            columns.push(OutputColumn { name, ty, origin });
        }
    }
}

/// The name that PostgreSQL gives a column of a result.
fn output_name(expr: &ast::Expr) -> String {
    match expr {
        ast::Expr::Identifier(ident) => name_of(ident),
        ast::Expr::CompoundIdentifier(parts) => parts.last().map_or_else(String::new, name_of),
        ast::Expr::Function(function) => {
            relation_of(&function.name).map_or_else(|_| "?column?".to_owned(), |(_, name)| name)
        }
        ast::Expr::Cast { expr, data_type, .. } => match output_name(expr) {
            name if name == "?column?" => match super::data_type(data_type) {
                Ok(ty) => cast_name(ty).to_owned(),
                Err(_) => name,
            },
            name => name,
        },
        ast::Expr::Nested(inner) => output_name(inner),
        ast::Expr::Case { .. } => "case".to_owned(),
        ast::Expr::Exists { .. } => "exists".to_owned(),
        ast::Expr::Extract { .. } => "extract".to_owned(),
        ast::Expr::Substring { .. } => "substring".to_owned(),
        ast::Expr::Trim { .. } => "btrim".to_owned(),
        ast::Expr::Position { .. } => "position".to_owned(),
        ast::Expr::Ceil { .. } => "ceil".to_owned(),
        ast::Expr::Floor { .. } => "floor".to_owned(),
        ast::Expr::Value(value) if matches!(value.value, ast::Value::Boolean(_)) => {
            "bool".to_owned()
        }
        _ => "?column?".to_owned(),
    }
}

fn cast_name(ty: DataType) -> &'static str {
    match ty {
        DataType::Bool => "bool",
        DataType::Int2 => "int2",
        DataType::Int4 => "int4",
        DataType::Int8 => "int8",
        DataType::Real => "float4",
        DataType::Double => "float8",
        DataType::Varchar(_) => "varchar",
        DataType::Char(_) => "bpchar",
        DataType::Timestamp => "timestamp",
        DataType::Timestamptz => "timestamptz",
        other => other.base_name(),
    }
}

/// Gives the columns of a query other types.
pub(super) fn convert(select: &mut Select, types: &[DataType]) -> Result<()> {
    if select.columns.iter().zip(types).all(|(column, ty)| column.ty == *ty) {
        return Ok(());
    }
    let from: Vec<DataType> = select.columns.iter().map(|column| column.ty).collect();
    for (column, ty) in select.columns.iter_mut().zip(types) {
        column.ty = *ty;
    }
    let change = |exprs: &mut [Expr]| -> Result<()> {
        for ((expr, from), to) in exprs.iter_mut().zip(&from).zip(types) {
            let value = std::mem::replace(expr, Expr::NULL);
            *expr = super::coerce(value, *from, *to, Use::Assignment)?;
        }
        Ok(())
    };
    match &mut select.body {
        Body::Core(core) => change(&mut core.output),
        Body::Values(rows) => rows.iter_mut().try_for_each(|row| change(row)),
        Body::Set { left, right, .. } => {
            convert(left, types)?;
            convert(right, types)
        }
    }
}

impl Binder<'_> {
    /// Binds FROM.
    pub(super) fn from(
        &mut self,
        from: &[ast::TableWithJoins],
        for_update: bool,
    ) -> Result<Sources> {
        let mut sources = Sources {
            relations: Vec::new(),
            columns: Vec::new(),
            conditions: Vec::new(),
            correlated: false,
        };
        for table in from {
            self.relation(&table.relation, JoinKind::Inner, for_update, &mut sources)?;
            for join in &table.joins {
                self.join(join, for_update, &mut sources)?;
            }
        }
        let mut names: Vec<&str> = Vec::new();
        for relation in &sources.relations {
            if !relation.name.is_empty() && names.contains(&&*relation.name) {
                let message = format!("table name \"{}\" specified more than once", relation.name);
                return Err(SqlError::new(state::DUPLICATE_ALIAS, message));
            }
            names.push(&relation.name);
        }
        Ok(sources)
    }

    fn join(&mut self, join: &ast::Join, for_update: bool, sources: &mut Sources) -> Result<()> {
        use ast::JoinOperator as Op;
        let (kind, constraint) = match &join.join_operator {
            Op::Join(constraint) | Op::Inner(constraint) => (JoinKind::Inner, constraint),
            Op::Left(constraint) | Op::LeftOuter(constraint) => (JoinKind::Left, constraint),
            Op::CrossJoin(constraint) => (JoinKind::Inner, constraint),
            other => {
                let text = format!("{other:?}");
                let name = text.split('(').next().unwrap_or_default().to_owned();
                return Err(SqlError::unsupported(format_args!("a join of the kind {name}")));
            }
        };
        let before = sources.columns.len();
        self.relation(&join.relation, kind, for_update, sources)?;
        let conditions = match constraint {
            ast::JoinConstraint::None => Vec::new(),
            ast::JoinConstraint::On(on) => {
                let columns = sources.columns.clone();
                self.within(columns, |binder| binder.condition(on))?.0.conjuncts()
            }
            ast::JoinConstraint::Using(names) => {
                let names = names.iter().map(|name| Ok(relation_of(name)?.1));
                let names = names.collect::<Result<Vec<_>>>()?;
                using(&names, before, sources)?
            }
            ast::JoinConstraint::Natural => {
                let (left, right) = sources.columns.split_at(before);
                let is_shared = |column: &&ScopeColumn| {
                    !column.hidden && left.iter().any(|o| !o.hidden && o.name == column.name)
                };
                let names: Vec<String> =
                    right.iter().filter(is_shared).map(|column| column.name.clone()).collect();
                using(&names, before, sources)?
            }
            other => return Err(SqlError::unsupported(format_args!("{other:?}"))),
        };
        match kind {
            JoinKind::Inner => sources.conditions.extend(conditions),
            JoinKind::Left => {
                let last = sources.relations.last_mut().expect("it was pushed");
                last.on = conditions;
            }
        }
        Ok(())
    }

    fn relation(
        &mut self,
        factor: &ast::TableFactor,
        join: JoinKind,
        for_update: bool,
        sources: &mut Sources,
    ) -> Result<()> {
        if sources.relations.len() == MAX_RELATIONS {
            let message = format!("a query reads {MAX_RELATIONS} tables at most");
            return Err(SqlError::new(state::PROGRAM_LIMIT, message));
        }
        let (source, mut columns, alias, own_name) = match factor {
            ast::TableFactor::Table {
                name,
                alias,
                args: None,
                with_ordinality: false,
                sample: None,
                version: None,
                ..
            } => {
                let (source, columns, own) = self.named(name, for_update)?;
                (source, columns, alias.as_ref(), own)
            }
            ast::TableFactor::Table {
                name,
                alias,
                args: Some(args),
                with_ordinality: false,
                ..
            } => {
                let (source, columns) = self.series(name, &args.args)?;
                (source, columns, alias.as_ref(), "generate_series".to_owned())
            }
            ast::TableFactor::Derived { lateral: false, subquery, alias, sample: None } => {
                let select = self.query(subquery)?;
                let columns = scope_of(&select.columns);
                (Source::Derived(Box::new(select)), columns, alias.as_ref(), String::new())
            }
            ast::TableFactor::NestedJoin { table_with_joins, alias: None } => {
                if join == JoinKind::Left && !table_with_joins.joins.is_empty() {
                    return Err(SqlError::unsupported("a LEFT JOIN with a join on its right"));
                }
                self.relation(&table_with_joins.relation, join, for_update, sources)?;
                for join in &table_with_joins.joins {
                    self.join(join, for_update, sources)?;
                }
                return Ok(());
            }
            other => {
                let text: String = other.to_string().chars().take(60).collect();
                return Err(SqlError::unsupported(format_args!("{text} in FROM")));
            }
        };
        let reads_outside = |exprs: &[Expr]| {
            exprs.iter().any(|expr| expr.any(&|part| matches!(part, Expr::Outer(..))))
        };
        sources.correlated |= match &source {
            Source::Derived(select) => select.correlated,
            Source::Series(bounds) => reads_outside(bounds),
            Source::Table { .. } | Source::System(_) => false,
        };
        let name = alias.map_or(own_name, |alias| name_of(&alias.name));
        if let Some(alias) = alias {
            rename(&mut columns, alias)?;
        }
        columns.iter_mut().for_each(|column| column.relation = Some(name.clone()));
        sources.relations.push(Relation {
            source,
            join,
            width: columns.len(),
            offset: sources.columns.len(),
            on: Vec::new(),
            after: Vec::new(),
            hash: Vec::new(),
            depends: false,
            name,
        });
        sources.columns.extend(columns);
        Ok(())
    }

    /// A table, a table of the catalog, or a query of WITH.
    fn named(
        &mut self,
        name: &ast::ObjectName,
        for_update: bool,
    ) -> Result<(Source, Vec<ScopeColumn>, String)> {
        let (schema, relation) = relation_of(name)?;
        let with = self.with.iter().rposition(|(name, _)| schema.is_none() && *name == relation);
        if let Some(at) = with {
            // A query of WITH knows those before it.
            let query = self.with[at].1.clone();
            let hidden = self.with.split_off(at);
            let select = self.query(&query);
            self.with.extend(hidden);
            let select = select?;
            let columns = scope_of(&select.columns);
            return Ok((Source::Derived(Box::new(select)), columns, relation));
        }
        let is_user = schema.as_deref().is_none_or(|schema| schema == "public");
        if let Some(table) = self.catalog.find(&relation).filter(|_| is_user) {
            let access = Access::Range(RangeAccess::default());
            let source = Source::Table { table: table.clone(), access, for_update };
            return Ok((source, table_columns(table), relation));
        }
        let system = system::find(schema.as_deref().unwrap_or("pg_catalog"), &relation);
        if let Some(system) = system {
            let column = |(name, ty): &(&str, DataType)| ScopeColumn {
                relation: None,
                name: (*name).to_owned(),
                ty: *ty,
                origin: (0, 0),
                hidden: false,
            };
            return Ok((
                Source::System(system),
                system.columns.iter().map(column).collect(),
                relation,
            ));
        }
        let message = format!("relation \"{name}\" does not exist");
        Err(SqlError::new(state::UNDEFINED_TABLE, message))
    }

    /// The function `generate_series`.
    fn series(
        &mut self,
        name: &ast::ObjectName,
        args: &[ast::FunctionArg],
    ) -> Result<(Source, Vec<ScopeColumn>)> {
        let (_, function) = relation_of(name)?;
        if function != "generate_series" || !(2..=3).contains(&args.len()) {
            return Err(SqlError::unsupported(format_args!("the function {function} in FROM")));
        }
        let mut bounds = Vec::new();
        for arg in args {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) = arg else {
                return Err(SqlError::unsupported(format_args!("the argument {arg}")));
            };
            let ((expr, from), _) = self.within(Vec::new(), |binder| binder.expr(expr))?;
            bounds.push(self.converted(expr, from, DataType::Int8, Use::Implicit)?);
        }
        let column = ScopeColumn {
            relation: None,
            name: function,
            ty: DataType::Int8,
            origin: (0, 0),
            hidden: false,
        };
        Ok((Source::Series(bounds), vec![column]))
    }
}

/// Columns of a table, and behind them that of its key, which no statement can name.
pub(super) fn table_columns(table: &crate::catalog::TableDef) -> Vec<ScopeColumn> {
    let column = |(place, column): (i16, &crate::catalog::ColumnDef)| ScopeColumn {
        relation: None,
        name: column.name.clone(),
        ty: column.ty,
        origin: (table.oid, place),
        hidden: false,
    };
    let key = ScopeColumn {
        relation: None,
        name: String::new(),
        ty: DataType::Bytea,
        origin: (0, 0),
        hidden: true,
    };
    (1..).zip(&table.columns).map(column).chain([key]).collect()
}

fn scope_of(columns: &[OutputColumn]) -> Vec<ScopeColumn> {
    let column = |column: &OutputColumn| ScopeColumn {
        relation: None,
        name: column.name.clone(),
        ty: column.ty,
        origin: column.origin,
        hidden: false,
    };
    columns.iter().map(column).collect()
}

fn rename(columns: &mut [ScopeColumn], alias: &ast::TableAlias) -> Result<()> {
    let named = columns.iter().filter(|column| !column.hidden).count();
    if alias.columns.len() > named {
        let message = format!(
            "table \"{}\" has {named} columns available but {} columns specified",
            alias.name,
            alias.columns.len()
        );
        return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message));
    }
    for (column, new) in columns.iter_mut().zip(&alias.columns) {
        column.name = name_of(&new.name);
    }
    // A function's only column is called as its result is.
    if let [column] = columns
        && column.name == "generate_series"
        && alias.columns.is_empty()
    {
        column.name = name_of(&alias.name);
    }
    Ok(())
}

/// Conditions of USING. Columns of the right side do not count for `*` and for plain names.
fn using(names: &[String], before: usize, sources: &mut Sources) -> Result<Vec<Expr>> {
    let mut conditions = Vec::new();
    for name in names {
        let is_it = |column: &ScopeColumn| !column.hidden && column.name == *name;
        let left = sources.columns[..before].iter().position(is_it);
        let right = sources.columns[before..].iter().position(is_it);
        let (Some(left), Some(right)) = (left, right.map(|right| before + right)) else {
            let message = format!("column \"{name}\" specified in USING clause does not exist");
            return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
        };
        let (one, other) = (sources.columns[left].ty, sources.columns[right].ty);
        let ty = super::cast::common(one, other).ok_or_else(|| {
            let message = format!("JOIN/USING types {one} and {other} cannot be matched");
            SqlError::new(state::DATATYPE_MISMATCH, message)
        })?;
        let left = super::coerce(Expr::Column(left), one, ty, Use::Implicit)?;
        let condition = super::coerce(Expr::Column(right), other, ty, Use::Implicit)?;
        sources.columns[right].hidden = true;
        conditions.push(Expr::Compare(
            crate::expr::Comparison::Equal,
            left.boxed(),
            condition.boxed(),
        ));
    }
    Ok(conditions)
}

/// Whether an expression is a constant that is true.
pub(super) fn is_true(expr: &Expr) -> bool {
    *expr == Expr::Const(Datum::Bool(true))
}
