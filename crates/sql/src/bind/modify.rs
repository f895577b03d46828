//! INSERT, UPDATE and DELETE.

use std::sync::Arc;

use sqlparser::ast;

use super::cast::Use;
use super::select::{Sources, convert, table_columns};
use super::{Binder, access, name_of, relation_of, user_relation};
use crate::catalog::TableDef;
use crate::error::{Result, SqlError, state};
use crate::expr::Expr;
use crate::plan::{Body, Insert, JoinKind, Modify, OnConflict, Returning, Select, Source};
use crate::types::DataType;

impl Binder<'_> {
    fn target(&mut self, name: &ast::ObjectName) -> Result<Arc<TableDef>> {
        let (schema, relation) = relation_of(name)?;
        if crate::system::find(schema.as_deref().unwrap_or(""), &relation).is_some() {
            return Err(SqlError::unsupported("a change of the catalog"));
        }
        self.catalog.table(&user_relation(name)?).cloned()
    }

    pub(super) fn insert(&mut self, insert: &ast::Insert) -> Result<Insert> {
        let refused = [
            (insert.or.is_some() || insert.ignore || insert.replace_into, "such an INSERT"),
            (insert.overwrite || insert.partitioned.is_some(), "INSERT OVERWRITE"),
            (insert.overriding.is_some(), "OVERRIDING"),
            (!insert.assignments.is_empty(), "INSERT SET"),
            (insert.output.is_some(), "OUTPUT"),
            (insert.insert_alias.is_some(), "such an alias"),
            (!insert.after_columns.is_empty() || insert.by_name, "such a list of columns"),
            (!insert.multi_table_into_clauses.is_empty(), "INSERT into several tables"),
        ];
        if let Some((_, what)) = refused.iter().find(|(is_there, _)| *is_there) {
            return Err(SqlError::unsupported(what));
        }
        let ast::TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::unsupported("INSERT into a function or a query"));
        };
        let table = self.target(name)?;
        let names: Vec<String> = insert
            .columns
            .iter()
            .map(|column| Ok(relation_of(column)?.1))
            .collect::<Result<_>>()?;
        let targets = target_columns(&table, &names)?;
        let (source, given) =
            self.insert_source(insert.source.as_deref(), &table, &targets, !names.is_empty())?;
        let mut values = Vec::with_capacity(table.columns.len());
        for column in 0..table.columns.len() {
            let place = targets.iter().position(|target| *target == column);
            values.push(match place.filter(|place| *place < given) {
                Some(place) => Expr::Column(place),
                None => self.default_of(&table, column)?,
            });
        }
        let alias = insert.table_alias.as_ref().map(|alias| name_of(&alias.alias));
        let alias = alias.unwrap_or_else(|| table.name.clone());
        let on_conflict = self.on_conflict(insert.on.as_ref(), &table, &alias)?;
        let returning = self.returning(insert.returning.as_deref(), &table, &alias)?;
        Ok(Insert { table, source, values, on_conflict, returning })
    }

    /// The rows to be inserted, and how many columns they have.
    fn insert_source(
        &mut self,
        query: Option<&ast::Query>,
        table: &TableDef,
        targets: &[usize],
        is_listed: bool,
    ) -> Result<(Select, usize)> {
        let Some(query) = query else {
            // DEFAULT VALUES
            return Ok((values_select(vec![Vec::new()]), 0));
        };
        let types: Vec<DataType> = targets.iter().map(|&column| table.columns[column].ty).collect();
        let check = |given: usize| {
            if given > targets.len() || is_listed && given < targets.len() {
                let which = if given > targets.len() { "expressions" } else { "target columns" };
                let message = format!("INSERT has more {which} than it has of the other");
                return Err(SqlError::new(state::SYNTAX_ERROR, message));
            }
            Ok(())
        };
        let is_plain = query.order_by.is_none()
            && query.limit_clause.is_none()
            && query.with.is_none()
            && query.fetch.is_none();
        if let (ast::SetExpr::Values(values), true) = (&*query.body, is_plain) {
            let width = values.rows.first().map_or(0, |row| row.len());
            check(width)?;
            let rows = values.rows.iter().map(|row| {
                if row.len() != width {
                    let message = "VALUES lists must all be the same length";
                    return Err(SqlError::new(state::SYNTAX_ERROR, message));
                }
                let cells = row.iter().zip(targets);
                cells.map(|(value, &column)| self.cell(value, table, column)).collect()
            });
            let rows = rows.collect::<Result<Vec<_>>>()?;
            return Ok((values_select(rows), width));
        }
        let mut select = self.query(query)?;
        let given = select.columns.len();
        check(given)?;
        convert(&mut select, &types[..given])?;
        Ok((select, given))
    }

    /// A value for a column.
    fn cell(&mut self, value: &ast::Expr, table: &TableDef, column: usize) -> Result<Expr> {
        if is_default(value) {
            return self.default_of(table, column);
        }
        let ((expr, from), _) = self.within(Vec::new(), |binder| binder.expr(value))?;
        self.assigned(expr, from, table, column)
    }

    fn assigned(
        &mut self,
        expr: Expr,
        from: DataType,
        table: &TableDef,
        column: usize,
    ) -> Result<Expr> {
        let column = &table.columns[column];
        self.converted(expr, from, column.ty, Use::Assignment).map_err(|error| {
            if error.state != state::DATATYPE_MISMATCH {
                return error;
            }
            let (name, ty) = (&column.name, column.ty);
            let message =
                format!("column \"{name}\" is of type {ty} but expression is of type {from}");
            SqlError { message, ..error }
        })
    }

    /// The expression for a value that is not given.
    pub(crate) fn default_of(&mut self, table: &TableDef, column: usize) -> Result<Expr> {
        let Some(sql) = &table.columns[column].default else { return Ok(Expr::NULL) };
        let expr = crate::parse::expression(sql)?;
        let ((expr, from), _) = self.within(Vec::new(), |binder| binder.expr(&expr))?;
        self.assigned(expr, from, table, column)
    }

    fn on_conflict(
        &mut self,
        on: Option<&ast::OnInsert>,
        table: &Arc<TableDef>,
        alias: &str,
    ) -> Result<OnConflict> {
        let on = match on {
            None => return Ok(OnConflict::Fail),
            Some(ast::OnInsert::OnConflict(on)) => on,
            Some(_) => return Err(SqlError::unsupported("ON DUPLICATE KEY UPDATE")),
        };
        let index = match &on.conflict_target {
            None => None,
            Some(target) => Some(conflict_index(target, table)?),
        };
        let update = match &on.action {
            ast::OnConflictAction::DoNothing => return Ok(OnConflict::Nothing(index)),
            ast::OnConflictAction::DoUpdate(update) => update,
        };
        let Some(index) = index else {
            let message =
                "ON CONFLICT DO UPDATE requires inference specification or constraint name";
            return Err(SqlError::new(state::SYNTAX_ERROR, message));
        };
        let mut columns = table_columns(table);
        columns.iter_mut().for_each(|column| column.relation = Some(alias.to_owned()));
        let mut excluded = table_columns(table);
        for column in &mut excluded {
            column.relation = Some("excluded".to_owned());
            // Plain names are those of the row that is there.
            column.hidden = true;
        }
        columns.extend(excluded);
        let ((set, condition), _) = self.within(columns, |binder| {
            let set = binder.assignments(&update.assignments, table)?;
            let condition = update.selection.as_ref().map(|selection| binder.condition(selection));
            Ok((set, condition.transpose()?))
        })?;
        Ok(OnConflict::Update { index, set, condition })
    }

    fn assignments(
        &mut self,
        assignments: &[ast::Assignment],
        table: &TableDef,
    ) -> Result<Vec<(usize, Expr)>> {
        let mut set: Vec<(usize, Expr)> = Vec::new();
        let mut add = |binder: &mut Self, name: &ast::ObjectName, value: &ast::Expr| {
            let column = table.column(&relation_of(name)?.1)?;
            if set.iter().any(|(other, _)| *other == column) {
                let name = &table.columns[column].name;
                let message = format!("multiple assignments to same column \"{name}\"");
                return Err(SqlError::new(state::SYNTAX_ERROR, message));
            }
            let value = match is_default(value) {
                true => binder.default_of(table, column)?,
                false => {
                    let (value, from) = binder.expr(value)?;
                    binder.assigned(value, from, table, column)?
                }
            };
            set.push((column, value));
            Ok(())
        };
        for assignment in assignments {
            match (&assignment.target, &assignment.value) {
                (ast::AssignmentTarget::ColumnName(name), value) => add(self, name, value)?,
                (ast::AssignmentTarget::Tuple(names), ast::Expr::Tuple(values))
                    if names.len() == values.len() =>
                {
                    for (name, value) in names.iter().zip(values) {
                        add(self, name, value)?;
                    }
                }
                _ => return Err(SqlError::unsupported("SET of several columns from a query")),
            }
        }
        Ok(set)
    }

    fn returning(
        &mut self,
        items: Option<&[ast::SelectItem]>,
        table: &TableDef,
        alias: &str,
    ) -> Result<Option<Returning>> {
        let Some(items) = items else { return Ok(None) };
        let mut columns = table_columns(table);
        columns.iter_mut().for_each(|column| column.relation = Some(alias.to_owned()));
        self.returning_over(items, columns).map(Some)
    }

    fn returning_over(
        &mut self,
        items: &[ast::SelectItem],
        columns: Vec<super::ScopeColumn>,
    ) -> Result<Returning> {
        let ((output, columns), _) =
            self.within(columns.clone(), |binder| binder.projection(items, &columns))?;
        Ok(Returning { output, columns })
    }

    pub(super) fn update(&mut self, update: &ast::Update) -> Result<Modify> {
        let refused = [
            (update.or.is_some(), "UPDATE OR"),
            (update.output.is_some(), "OUTPUT"),
            (
                !update.order_by.is_empty() || update.limit.is_some(),
                "UPDATE with ORDER BY or LIMIT",
            ),
            (!update.table.joins.is_empty(), "UPDATE of a join"),
        ];
        if let Some((_, what)) = refused.iter().find(|(is_there, _)| *is_there) {
            return Err(SqlError::unsupported(what));
        }
        let others = match &update.from {
            None => &[][..],
            Some(ast::UpdateTableFromKind::AfterSet(from)) => &**from,
            Some(_) => return Err(SqlError::unsupported("FROM before SET")),
        };
        let mut from = vec![update.table.clone()];
        from.extend_from_slice(others);
        self.modify(
            &from,
            update.selection.as_ref(),
            Some(&update.assignments),
            update.returning.as_deref(),
        )
    }

    pub(super) fn delete(&mut self, delete: &ast::Delete) -> Result<Modify> {
        let refused = [
            (!delete.tables.is_empty(), "DELETE of several tables"),
            (delete.output.is_some(), "OUTPUT"),
            (
                !delete.order_by.is_empty() || delete.limit.is_some(),
                "DELETE with ORDER BY or LIMIT",
            ),
        ];
        if let Some((_, what)) = refused.iter().find(|(is_there, _)| *is_there) {
            return Err(SqlError::unsupported(what));
        }
        let (ast::FromTable::WithFromKeyword(tables) | ast::FromTable::WithoutKeyword(tables)) =
            &delete.from;
        let [table] = &**tables else {
            return Err(SqlError::unsupported("DELETE of several tables"));
        };
        if !table.joins.is_empty() {
            return Err(SqlError::unsupported("DELETE of a join"));
        }
        let mut from = vec![table.clone()];
        from.extend(delete.using.iter().flatten().cloned());
        self.modify(&from, delete.selection.as_ref(), None, delete.returning.as_deref())
    }

    fn modify(
        &mut self,
        from: &[ast::TableWithJoins],
        selection: Option<&ast::Expr>,
        assignments: Option<&[ast::Assignment]>,
        returning: Option<&[ast::SelectItem]>,
    ) -> Result<Modify> {
        let ast::TableFactor::Table { name, args: None, .. } = &from[0].relation else {
            return Err(SqlError::unsupported("a change of something that is no table"));
        };
        let table = self.target(name)?;
        let Sources { mut relations, columns, conditions, .. } = self.from(from, false)?;
        let Source::Table { for_update, .. } = &mut relations[0].source else {
            return Err(SqlError::unsupported("a change of something that is no table"));
        };
        *for_update = true;
        debug_assert_eq!(relations[0].join, JoinKind::Inner);
        let (bound, _) = self.within(columns.clone(), |binder| {
            let mut conditions = conditions;
            if let Some(selection) = selection {
                conditions.extend(binder.condition(selection)?.conjuncts());
            }
            let constant = access::place(&mut relations, conditions);
            let set = assignments.map(|set| binder.assignments(set, &table)).transpose()?;
            Ok((constant, set))
        })?;
        let (constant, set) = bound;
        let returning = match returning {
            Some(items) => Some(self.returning_over(items, columns)?),
            None => None,
        };
        Ok(Modify { table, relations, constant, set, returning })
    }
}

/// The columns that are given: those that are listed, or all.
pub(crate) fn target_columns(table: &TableDef, names: &[String]) -> Result<Vec<usize>> {
    if names.is_empty() {
        return Ok((0..table.columns.len()).collect());
    }
    let mut targets = Vec::with_capacity(names.len());
    for name in names {
        let column = table.column(name)?;
        if targets.contains(&column) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
        targets.push(column);
    }
    Ok(targets)
}

fn conflict_index(target: &ast::ConflictTarget, table: &TableDef) -> Result<usize> {
    match target {
        ast::ConflictTarget::Columns { predicate: Some(_), .. } => {
            Err(SqlError::unsupported("ON CONFLICT with a condition of an index"))
        }
        ast::ConflictTarget::Columns { columns, .. } => {
            let mut wanted = Vec::with_capacity(columns.len());
            for column in columns {
                wanted.push(table.column(&name_of(column))?);
            }
            wanted.sort_unstable();
            let is_it = |index: &crate::catalog::IndexDef| {
                let mut columns = index.columns.clone();
                columns.sort_unstable();
                index.unique && columns == wanted
            };
            table.all_indexes().position(is_it).ok_or_else(|| {
                let message = "there is no unique or exclusion constraint matching the ON CONFLICT \
                               specification";
                SqlError::new(state::INVALID_COLUMN_REFERENCE, message)
            })
        }
        ast::ConflictTarget::OnConstraint(name) => {
            let (_, name) = relation_of(name)?;
            let is_it = |index: &crate::catalog::IndexDef| index.unique && index.name == name;
            table.all_indexes().position(is_it).ok_or_else(|| {
                let message =
                    format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
                SqlError::new(state::UNDEFINED_OBJECT, message)
            })
        }
    }
}

fn is_default(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// Rows of expressions as a query.
fn values_select(rows: Vec<Vec<Expr>>) -> Select {
    Select {
        body: Body::Values(rows),
        sort: Vec::new(),
        limit: None,
        offset: None,
        columns: Vec::new(),
        correlated: false,
    }
}
