//! From the syntax of a statement to a plan: names become columns, and expressions get types.

mod access;
mod call;
mod cast;
mod ddl;
mod expr;
mod modify;
mod select;
mod types;

use std::sync::Arc;

use sqlparser::ast;

pub(crate) use cast::{Use, coerce};
pub(crate) use ddl::{Ddl, NewIndex};
pub(crate) use modify::target_columns;
pub(crate) use types::data_type;

use crate::catalog::Catalog;
use crate::error::{Result, SqlError, state};
use crate::expr::Expr;
use crate::plan::{Aggregate, Plan};
use crate::types::DataType;

/// How deep expressions and queries stand in each other.
const MAX_DEPTH: usize = 600;

/// Parameters of a statement at most, as the protocol counts them.
const MAX_PARAMETERS: usize = 65_535;

/// A column that a query can name.
#[derive(Clone, Debug)]
pub(crate) struct ScopeColumn {
    /// The name of its relation.
    pub(crate) relation: Option<String>,
    pub(crate) name: String,
    pub(crate) ty: DataType,
    pub(crate) origin: (u32, i16),
    /// Whether `*` stands for it, too. Columns that cannot be named are hidden.
    pub(crate) hidden: bool,
}

/// Names of one query.
#[derive(Debug, Default)]
struct Scope {
    columns: Vec<ScopeColumn>,
    /// Calls of functions of many rows; `None` where there can be none.
    aggregates: Option<Vec<Aggregate>>,
    /// Whether it reads columns of queries around it.
    correlated: bool,
}

/// Binds one statement.
pub(crate) struct Binder<'a> {
    catalog: &'a Catalog,
    /// Types of parameters as far as they are known.
    params: Vec<DataType>,
    scopes: Vec<Scope>,
    /// Queries of WITH.
    with: Vec<(String, Arc<ast::Query>)>,
    depth: usize,
}

impl<'a> Binder<'a> {
    pub(crate) fn new(catalog: &'a Catalog, params: &[DataType]) -> Self {
        Self { catalog, params: params.to_vec(), scopes: Vec::new(), with: Vec::new(), depth: 0 }
    }

    /// The types of all parameters.
    pub(crate) fn into_params(self) -> Vec<DataType> {
        let text = |ty| if ty == DataType::Unknown { DataType::Text } else { ty };
        self.params.into_iter().map(text).collect()
    }

    /// Binds a statement that reads or changes rows.
    pub(crate) fn statement(&mut self, statement: &ast::Statement) -> Result<Plan> {
        match statement {
            ast::Statement::Query(query) => match &*query.body {
                ast::SetExpr::Insert(inner)
                | ast::SetExpr::Update(inner)
                | ast::SetExpr::Delete(inner) => match query.with {
                    None => self.statement(inner),
                    Some(_) => Err(SqlError::unsupported("WITH before a change")),
                },
                _ => Ok(Plan::Select(Box::new(self.query(query)?))),
            },
            ast::Statement::Insert(insert) => Ok(Plan::Insert(Box::new(self.insert(insert)?))),
            ast::Statement::Update(update) => Ok(Plan::Modify(Box::new(self.update(update)?))),
            ast::Statement::Delete(delete) => Ok(Plan::Modify(Box::new(self.delete(delete)?))),
            other => Err(SqlError::unsupported(first_words(other))),
        }
    }

    /// Goes one level deeper, for as long as `inner` runs.
    fn deeper<R>(&mut self, inner: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        if self.depth >= MAX_DEPTH {
            let message = "stack depth limit exceeded: the statement is nested too deeply";
            return Err(SqlError::new(state::TOO_COMPLEX, message));
        }
        self.depth += 1;
        let done = inner(self);
        self.depth -= 1;
        done
    }

    fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("expressions are bound within a scope")
    }

    /// Binds with these columns: what comes of it, and whether queries around are read.
    fn within<R>(
        &mut self,
        columns: Vec<ScopeColumn>,
        inner: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<(R, bool)> {
        self.scopes.push(Scope { columns, ..Scope::default() });
        let done = inner(self);
        let scope = self.scopes.pop().expect("it was pushed");
        Ok((done?, scope.correlated))
    }

    /// The column with a name, in the nearest query that has one.
    fn column(&mut self, relation: Option<&str>, name: &str) -> Result<(Expr, DataType)> {
        for level in 0..self.scopes.len() {
            let at = self.scopes.len() - 1 - level;
            let is_it = |column: &ScopeColumn| {
                !(column.hidden && relation.is_none())
                    && column.name == name
                    && (relation.is_none() || column.relation.as_deref() == relation)
            };
            let mut found = self.scopes[at].columns.iter().enumerate();
            let Some((place, column)) = found.by_ref().find(|(_, column)| is_it(column)) else {
                continue;
            };
            if found.any(|(_, column)| is_it(column)) {
                let message = format!("column reference \"{name}\" is ambiguous");
                return Err(SqlError::new(state::AMBIGUOUS_COLUMN, message));
            }
            let ty = column.ty;
            if level == 0 {
                return Ok((Expr::Column(place), ty));
            }
            self.scopes[at + 1..].iter_mut().for_each(|scope| scope.correlated = true);
            return Ok((Expr::Outer(level, place), ty));
        }
        Err(self.no_column(relation, name))
    }

    fn no_column(&self, relation: Option<&str>, name: &str) -> SqlError {
        let Some(relation) = relation else {
            let message = format!("column \"{name}\" does not exist");
            return SqlError::new(state::UNDEFINED_COLUMN, message);
        };
        let columns = self.scopes.iter().flat_map(|scope| &scope.columns);
        let mut relations = columns.filter_map(|column| column.relation.as_deref());
        match relations.any(|other| other == relation) {
            true => {
                let message = format!("column {relation}.{name} does not exist");
                SqlError::new(state::UNDEFINED_COLUMN, message)
            }
            false => {
                let message = format!("missing FROM-clause entry for table \"{relation}\"");
                SqlError::new(state::UNDEFINED_TABLE, message)
            }
        }
    }

    /// A parameter such as `$1`.
    fn param(&mut self, text: &str) -> Result<(Expr, DataType)> {
        let number = text.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
        let Some(number) = number.filter(|number| (1..=MAX_PARAMETERS).contains(number)) else {
            let message = format!("there is no parameter {text}");
            return Err(SqlError::new(state::UNDEFINED_PARAMETER, message));
        };
        if self.params.len() < number {
            self.params.resize(number, DataType::Unknown);
        }
        Ok((Expr::Param(number - 1), self.params[number - 1]))
    }
}

/// A name in lower case, unless it is quoted.
pub(crate) fn name_of(ident: &ast::Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// The parts of a name.
pub(crate) fn parts_of(name: &ast::ObjectName) -> Result<Vec<String>> {
    let part = |part: &ast::ObjectNamePart| match part {
        ast::ObjectNamePart::Identifier(ident) => Ok(name_of(ident)),
        ast::ObjectNamePart::Function(_) => Err(SqlError::unsupported("a function as a name")),
    };
    name.0.iter().map(part).collect()
}

/// Schema and name of a table; without a schema it is none.
pub(crate) fn relation_of(name: &ast::ObjectName) -> Result<(Option<String>, String)> {
    let mut parts = parts_of(name)?;
    let last = parts.pop().unwrap_or_default();
    let schema = parts.pop();
    // The name of the database does not matter: there is one.
    Ok((schema, last))
}

/// The name of a table of users, which are all in the schema `public`.
pub(crate) fn user_relation(name: &ast::ObjectName) -> Result<String> {
    match relation_of(name)? {
        (None, name) => Ok(name),
        (Some(schema), name) if schema == "public" => Ok(name),
        (Some(schema), _) => {
            let message = format!("schema \"{schema}\" does not exist");
            Err(SqlError::new(state::INVALID_SCHEMA, message)
                .with_hint("All tables are in the schema \"public\"."))
        }
    }
}

/// The first words of a statement, for messages.
pub(crate) fn first_words(statement: &ast::Statement) -> String {
    let text = statement.to_string();
    text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}
