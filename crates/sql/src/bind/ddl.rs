//! CREATE, DROP, ALTER and TRUNCATE.

use sqlparser::ast;

use super::{Binder, data_type, name_of, user_relation};
use crate::catalog::ColumnDef;
use crate::error::{Result, SqlError, state};
use crate::expr::Expr;
use crate::types::DataType;

/// Columns of a table at most.
const MAX_COLUMNS: usize = 1600;

/// Columns of an index at most.
const MAX_KEY_COLUMNS: usize = 32;

/// Bytes of a name at most.
const MAX_NAME: usize = 63;

/// A constraint or an index that a statement asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NewIndex {
    /// Without one it is named after table and columns.
    pub(crate) name: Option<String>,
    pub(crate) columns: Vec<String>,
    pub(crate) unique: bool,
    pub(crate) primary: bool,
    pub(crate) is_constraint: bool,
}

/// A change of the catalog.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ddl {
    CreateTable {
        name: String,
        columns: Vec<ColumnDef>,
        indexes: Vec<NewIndex>,
        if_not_exists: bool,
    },
    CreateIndex {
        table: String,
        index: NewIndex,
        if_not_exists: bool,
    },
    DropTables {
        names: Vec<String>,
        if_exists: bool,
    },
    DropIndexes {
        names: Vec<String>,
        if_exists: bool,
    },
    DropConstraint {
        table: String,
        name: String,
        if_exists: bool,
    },
    RenameTable {
        table: String,
        to: String,
    },
    RenameColumn {
        table: String,
        column: String,
        to: String,
    },
    Truncate {
        names: Vec<String>,
    },
}

impl Binder<'_> {
    /// Binds a statement that changes the catalog; `None` if it is another one.
    pub(crate) fn ddl(&mut self, statement: &ast::Statement) -> Result<Option<Vec<Ddl>>> {
        Ok(Some(match statement {
            ast::Statement::CreateTable(create) => vec![self.create_table(create)?],
            ast::Statement::CreateIndex(create) => vec![create_index(create)?],
            ast::Statement::Drop { object_type, if_exists, names, cascade, temporary, .. } => {
                if *cascade && *object_type != ast::ObjectType::Table || *temporary {
                    return Err(SqlError::unsupported("such a DROP"));
                }
                let names = names.iter().map(user_relation).collect::<Result<_>>()?;
                let if_exists = *if_exists;
                vec![match object_type {
                    ast::ObjectType::Table => Ddl::DropTables { names, if_exists },
                    ast::ObjectType::Index => Ddl::DropIndexes { names, if_exists },
                    other => return Err(SqlError::unsupported(format_args!("DROP {other}"))),
                }]
            }
            ast::Statement::Truncate(truncate) => vec![self.truncate(truncate)?],
            ast::Statement::AlterTable(alter) => alter_table(alter)?,
            _ => return Ok(None),
        }))
    }

    fn create_table(&mut self, create: &ast::CreateTable) -> Result<Ddl> {
        let refused = [
            (create.or_replace, "OR REPLACE"),
            (create.temporary, "a temporary table"),
            (create.external, "an external table"),
            (create.query.is_some(), "CREATE TABLE AS"),
            (create.like.is_some() || create.clone.is_some(), "CREATE TABLE LIKE"),
            (create.inherits.is_some(), "INHERITS"),
            (create.partition_by.is_some() || create.partition_of.is_some(), "PARTITION BY"),
            (create.on_commit.is_some(), "ON COMMIT"),
        ];
        if let Some((_, what)) = refused.iter().find(|(is_there, _)| *is_there) {
            return Err(SqlError::unsupported(what));
        }
        check_options(&create.table_options)?;
        let name = checked_name(user_relation(&create.name)?)?;
        let (mut columns, mut indexes) = (Vec::<ColumnDef>::new(), Vec::new());
        for column in &create.columns {
            let column = self.column_def(column, &mut indexes)?;
            if columns.iter().any(|other| other.name == column.name) {
                let message = format!("column \"{}\" specified more than once", column.name);
                return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
            }
            columns.push(column);
        }
        if columns.is_empty() || columns.len() > MAX_COLUMNS {
            return Err(SqlError::unsupported(format_args!(
                "a table of {} columns; 1 to {MAX_COLUMNS} are allowed, so it",
                columns.len()
            )));
        }
        indexes.extend(create.constraints.iter().map(constraint).collect::<Result<Vec<_>>>()?);
        if indexes.iter().filter(|index| index.primary).count() > 1 {
            let message = format!("multiple primary keys for table \"{name}\" are not allowed");
            return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
        }
        let if_not_exists = create.if_not_exists;
        Ok(Ddl::CreateTable { name, columns, indexes, if_not_exists })
    }

    fn column_def(
        &mut self,
        column: &ast::ColumnDef,
        indexes: &mut Vec<NewIndex>,
    ) -> Result<ColumnDef> {
        let name = checked_name(name_of(&column.name))?;
        let mut def =
            ColumnDef { ty: data_type(&column.data_type)?, name, not_null: false, default: None };
        for option in &column.options {
            let given = option.name.as_ref().map(name_of);
            match &option.option {
                ast::ColumnOption::Null => {}
                ast::ColumnOption::NotNull => def.not_null = true,
                ast::ColumnOption::Default(expr) => def.default = self.default(expr, def.ty)?,
                ast::ColumnOption::PrimaryKey(_) => {
                    indexes.push(index_of(given, vec![def.name.clone()], true, true));
                }
                ast::ColumnOption::Unique(unique) => {
                    check_nulls_distinct(&unique.nulls_distinct)?;
                    indexes.push(index_of(given, vec![def.name.clone()], true, false));
                }
                ast::ColumnOption::Collation(_) => return Err(SqlError::unsupported("COLLATE")),
                ast::ColumnOption::ForeignKey(_) => {
                    return Err(SqlError::unsupported("REFERENCES"));
                }
                ast::ColumnOption::Check(_) => return Err(SqlError::unsupported("CHECK")),
                other => {
                    return Err(SqlError::unsupported(format_args!("{other} of a column")));
                }
            }
        }
        Ok(def)
    }

    /// The text of a default, which was seen to be one.
    fn default(&mut self, expr: &ast::Expr, ty: DataType) -> Result<Option<String>> {
        let ((bound, from), _) = self.within(Vec::new(), |binder| binder.expr(expr))?;
        let has_query = bound.any(&|part| matches!(part, Expr::Subquery(..)));
        if has_query || bound.any(&|part| matches!(part, Expr::Param(_))) {
            let message = "a default is an expression without queries and parameters";
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
        }
        let bound = super::coerce(bound, from, ty, super::Use::Assignment)?;
        Ok((bound != Expr::NULL).then(|| expr.to_string()))
    }

    fn truncate(&mut self, truncate: &ast::Truncate) -> Result<Ddl> {
        if truncate.partitions.is_some() || truncate.if_exists {
            return Err(SqlError::unsupported("such a TRUNCATE"));
        }
        let names = truncate.table_names.iter().map(|target| user_relation(&target.name));
        Ok(Ddl::Truncate { names: names.collect::<Result<_>>()? })
    }
}

fn index_of(name: Option<String>, columns: Vec<String>, unique: bool, primary: bool) -> NewIndex {
    NewIndex { name, columns, unique, primary, is_constraint: true }
}

fn checked_name(name: String) -> Result<String> {
    match name.len() {
        1..=MAX_NAME => Ok(name),
        _ => {
            let message = format!("the name \"{name}\" does not have 1 to {MAX_NAME} bytes");
            Err(SqlError::new(state::PROGRAM_LIMIT, message))
        }
    }
}

/// Options that say how full pages are do not matter here.
fn check_options(options: &ast::CreateTableOptions) -> Result<()> {
    let options = match options {
        ast::CreateTableOptions::None => return Ok(()),
        ast::CreateTableOptions::With(options) => options,
        _ => return Err(SqlError::unsupported("such options of a table")),
    };
    for option in options {
        let is_known = matches!(option, ast::SqlOption::KeyValue { key, .. }
            if key.to_string().eq_ignore_ascii_case("fillfactor"));
        if !is_known {
            return Err(SqlError::unsupported(format_args!("the option {option}")));
        }
    }
    Ok(())
}

fn check_nulls_distinct(option: &ast::NullsDistinctOption) -> Result<()> {
    match option {
        ast::NullsDistinctOption::NotDistinct => Err(SqlError::unsupported("NULLS NOT DISTINCT")),
        _ => Ok(()),
    }
}

fn constraint(constraint: &ast::TableConstraint) -> Result<NewIndex> {
    let (name, columns, primary) = match constraint {
        ast::TableConstraint::PrimaryKey(key) => (&key.name, &key.columns, true),
        ast::TableConstraint::Unique(unique) => {
            check_nulls_distinct(&unique.nulls_distinct)?;
            (&unique.name, &unique.columns, false)
        }
        ast::TableConstraint::ForeignKey(_) => return Err(SqlError::unsupported("FOREIGN KEY")),
        ast::TableConstraint::Check(_) => return Err(SqlError::unsupported("CHECK")),
        other => return Err(SqlError::unsupported(format_args!("{other}"))),
    };
    let name = name.as_ref().map(|name| checked_name(name_of(name))).transpose()?;
    Ok(index_of(name, key_columns(columns)?, true, primary))
}

/// Columns of a key, each by its name alone.
fn key_columns(columns: &[ast::IndexColumn]) -> Result<Vec<String>> {
    if columns.len() > MAX_KEY_COLUMNS {
        let message = format!("cannot use more than {MAX_KEY_COLUMNS} columns in an index");
        return Err(SqlError::new(state::PROGRAM_LIMIT, message));
    }
    let name = |column: &ast::IndexColumn| {
        let options = &column.column.options;
        if matches!(options.sort, Some(ast::OrderBySort::Desc)) || options.nulls_first == Some(true)
        {
            return Err(SqlError::unsupported("an index in descending order")
                .with_hint("An index is read backwards as fast as forwards."));
        }
        match &column.column.expr {
            ast::Expr::Identifier(ident) if column.operator_class.is_none() => Ok(name_of(ident)),
            other => Err(SqlError::unsupported(format_args!("an index of {other}"))),
        }
    };
    columns.iter().map(name).collect()
}

fn create_index(create: &ast::CreateIndex) -> Result<Ddl> {
    let refused = [
        (create.predicate.is_some(), "an index with a condition"),
        (!create.include.is_empty(), "INCLUDE"),
        (create.nulls_distinct == Some(false), "NULLS NOT DISTINCT"),
        (!create.with.is_empty() || create.r#async, "such options of an index"),
    ];
    if let Some((_, what)) = refused.iter().find(|(is_there, _)| *is_there) {
        return Err(SqlError::unsupported(what));
    }
    if let Some(using) = &create.using
        && !matches!(using, ast::IndexType::BTree)
    {
        return Err(SqlError::unsupported(format_args!("an index USING {using}")));
    }
    let name = create.name.as_ref().map(user_relation).transpose()?;
    let name = name.map(checked_name).transpose()?;
    let (columns, unique) = (key_columns(&create.columns)?, create.unique);
    let index = NewIndex { name, columns, unique, primary: false, is_constraint: false };
    let (table, if_not_exists) = (user_relation(&create.table_name)?, create.if_not_exists);
    Ok(Ddl::CreateIndex { table, index, if_not_exists })
}

fn alter_table(alter: &ast::AlterTable) -> Result<Vec<Ddl>> {
    if alter.if_exists {
        return Err(SqlError::unsupported("ALTER TABLE IF EXISTS"));
    }
    let table = user_relation(&alter.name)?;
    let one = |operation: &ast::AlterTableOperation| {
        use ast::AlterTableOperation as Op;
        let table = table.clone();
        Ok(match operation {
            Op::AddConstraint { constraint: added, .. } => {
                let index = constraint(added)?;
                Ddl::CreateIndex { table, index, if_not_exists: false }
            }
            Op::DropConstraint { if_exists, name, .. } => {
                Ddl::DropConstraint { table, name: name_of(name), if_exists: *if_exists }
            }
            Op::RenameTable { table_name } => {
                let (ast::RenameTableNameKind::To(name) | ast::RenameTableNameKind::As(name)) =
                    table_name;
                Ddl::RenameTable { table, to: checked_name(user_relation(name)?)? }
            }
            Op::RenameColumn { old_column_name, new_column_name } => {
                let (column, to) = (name_of(old_column_name), name_of(new_column_name));
                Ddl::RenameColumn { table, column, to: checked_name(to)? }
            }
            other => return Err(SqlError::unsupported(format_args!("ALTER TABLE {other}"))),
        })
    };
    alter.operations.iter().map(one).collect()
}
