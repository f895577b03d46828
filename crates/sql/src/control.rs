//! Statements that are about transactions and the session.

use sqlparser::ast;

use crate::bind::name_of;
use crate::error::{Result, SqlError, state};
use crate::plan::OutputColumn;
use crate::types::DataType;

/// A statement that reads and changes no rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Control {
    Begin {
        read_only: bool,
    },
    Commit,
    Rollback,
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    SetTransaction {
        read_only: Option<bool>,
    },
    Set {
        name: String,
        value: Option<String>,
    },
    Show(String),
    ShowAll,
    /// `None`: all.
    Deallocate(Option<String>),
    DiscardAll,
    /// There is nothing to do.
    Maintenance(&'static str),
}

impl Control {
    pub(crate) fn columns(&self) -> Option<Vec<OutputColumn>> {
        let column =
            |name: &str| OutputColumn { name: name.to_owned(), ty: DataType::Text, origin: (0, 0) };
        match self {
            Self::Show(name) => Some(vec![column(name)]),
            Self::ShowAll => Some(vec![column("name"), column("setting")]),
            _ => None,
        }
    }
}

/// The statement as one of these, if it is.
pub(crate) fn control_of(statement: &ast::Statement) -> Result<Option<Control>> {
    use ast::Statement as Ast;
    Ok(Some(match statement {
        Ast::StartTransaction { modes, statements, .. } if statements.is_empty() => {
            Control::Begin { read_only: modes_of(modes)?.unwrap_or(false) }
        }
        Ast::Commit { chain: false, .. } => Control::Commit,
        Ast::Rollback { chain: false, savepoint: None } => Control::Rollback,
        Ast::Rollback { chain: false, savepoint: Some(name) } => Control::RollbackTo(name_of(name)),
        Ast::Commit { .. } | Ast::Rollback { .. } => {
            return Err(SqlError::unsupported("AND CHAIN"));
        }
        Ast::Savepoint { name } => Control::Savepoint(name_of(name)),
        Ast::ReleaseSavepoint { name } => Control::Release(name_of(name)),
        Ast::Set(set) => set_of(set)?,
        Ast::Reset(reset) => {
            let text = reset.to_string().to_lowercase();
            let name = text.trim_start_matches("reset ").to_owned();
            if name == "all" {
                return Err(SqlError::unsupported("RESET ALL"));
            }
            Control::Set { name, value: None }
        }
        Ast::ShowVariable { variable } => {
            let words: Vec<String> =
                variable.iter().map(|word| word.value.to_lowercase()).collect();
            match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                ["all"] => Control::ShowAll,
                ["transaction", "isolation", "level"] => {
                    Control::Show("transaction_isolation".to_owned())
                }
                ["time", "zone"] => Control::Show("timezone".to_owned()),
                words => Control::Show(words.join(".")),
            }
        }
        Ast::Deallocate { name, .. } => {
            let is_all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
            Control::Deallocate((!is_all).then(|| name_of(name)))
        }
        Ast::Discard { object_type } => match object_type {
            ast::DiscardObject::ALL => Control::DiscardAll,
            _ => Control::Maintenance("DISCARD"),
        },
        Ast::Vacuum(_) => Control::Maintenance("VACUUM"),
        Ast::Analyze(_) => Control::Maintenance("ANALYZE"),
        _ => return Ok(None),
    }))
}

/// Whether a transaction only reads. All levels of isolation are at most what there is.
fn modes_of(modes: &[ast::TransactionMode]) -> Result<Option<bool>> {
    let mut read_only = None;
    for mode in modes {
        match mode {
            ast::TransactionMode::AccessMode(mode) => {
                read_only = Some(*mode == ast::TransactionAccessMode::ReadOnly);
            }
            ast::TransactionMode::IsolationLevel(ast::TransactionIsolationLevel::Snapshot) => {
                return Err(SqlError::unsupported("the isolation level SNAPSHOT"));
            }
            // It is serializable, which is all that a weaker level promises.
            ast::TransactionMode::IsolationLevel(_) => {}
        }
    }
    Ok(read_only)
}

fn set_of(set: &ast::Set) -> Result<Control> {
    Ok(match set {
        ast::Set::SingleAssignment { scope, variable, values, .. } => {
            if matches!(scope, Some(ast::ContextModifier::Global | ast::ContextModifier::Local)) {
                return Err(SqlError::unsupported("SET LOCAL"));
            }
            let name = crate::bind::parts_of(variable)?.join(".");
            let texts = values.iter().map(text_of).collect::<Result<Vec<_>>>()?;
            let value = texts.join(", ");
            let is_default = value.eq_ignore_ascii_case("default");
            Control::Set { name, value: (!is_default).then_some(value) }
        }
        ast::Set::SetTimeZone { value, .. } => {
            Control::Set { name: "timezone".to_owned(), value: Some(text_of(value)?) }
        }
        ast::Set::SetNames { charset_name, .. } => Control::Set {
            name: "client_encoding".to_owned(),
            value: Some(charset_name.value.clone()),
        },
        ast::Set::SetTransaction { modes, snapshot: None, session } => {
            let read_only = modes_of(modes)?;
            if *session && read_only == Some(true) {
                return Err(SqlError::unsupported("a session that only reads"));
            }
            Control::SetTransaction { read_only }
        }
        other => return Err(SqlError::unsupported(other)),
    })
}

fn text_of(value: &ast::Expr) -> Result<String> {
    match value {
        ast::Expr::Identifier(ident) => Ok(ident.value.clone()),
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, _) => Ok(digits.clone()),
            ast::Value::Boolean(value) => Ok(if *value { "on" } else { "off" }.to_owned()),
            value => value.clone().into_string().ok_or_else(|| bad_value(&value.to_string())),
        },
        ast::Expr::UnaryOp { .. } => Ok(value.to_string().replace(' ', "")),
        other => Err(bad_value(&other.to_string())),
    }
}

fn bad_value(text: &str) -> SqlError {
    SqlError::new(state::INVALID_PARAMETER_VALUE, format!("{text} is no value of a parameter"))
}
