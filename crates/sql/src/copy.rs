//! COPY: rows as lines of text.

use std::sync::Arc;

use sqlparser::ast;

use crate::bind::{Binder, name_of, target_columns, user_relation};
use crate::catalog::{Catalog, TableDef};
use crate::error::{Result, SqlError, state};
use crate::exec::Exec;
use crate::expr::Expr;
use crate::plan::OutputColumn;
use crate::store;
use crate::text;
use crate::types::{DataType, Datum, Row};

/// Bytes of a line at most.
const MAX_LINE: usize = 1 << 20;

/// How rows are written.
#[derive(Clone, Debug, PartialEq)]
struct Format {
    csv: bool,
    delimiter: u8,
    null: String,
    header: bool,
    quote: u8,
    escape: u8,
}

/// A COPY statement.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyPlan {
    format: Format,
    is_in: bool,
    table: String,
    query: Option<Arc<ast::Query>>,
    /// Columns of the table that lines have.
    columns: Vec<usize>,
    types: Vec<DataType>,
    /// Values of all columns; those of lines are columns of a line.
    values: Vec<Expr>,
}

impl CopyPlan {
    pub(crate) fn new(catalog: &Catalog, statement: &ast::Statement) -> Result<Self> {
        let ast::Statement::Copy { source, to, target, options, legacy_options, .. } = statement
        else {
            return Err(SqlError::unsupported(statement));
        };
        let format = Format::of(options, legacy_options)?;
        let is_right = match target {
            ast::CopyTarget::Stdin => !*to,
            ast::CopyTarget::Stdout => *to,
            _ => false,
        };
        if !is_right {
            return Err(SqlError::unsupported("COPY with a file or a program")
                .with_hint("Use COPY FROM STDIN, or COPY TO STDOUT."));
        }
        let (name, names) = match source {
            ast::CopySource::Query(query) if *to => {
                let query = Some(Arc::new((**query).clone()));
                let (columns, types, values) = Default::default();
                let table = String::new();
                return Ok(Self { format, is_in: false, table, query, columns, types, values });
            }
            ast::CopySource::Query(_) => {
                return Err(SqlError::new(state::SYNTAX_ERROR, "COPY FROM a query is not valid"));
            }
            ast::CopySource::Table { table_name, columns } => {
                let names: Vec<String> = columns.iter().map(name_of).collect();
                (user_relation(table_name)?, names)
            }
        };
        let table = catalog.table(&name)?;
        let columns = target_columns(table, &names)?;
        let query = match to {
            true => Some(Arc::new(query_of(table, &columns)?)),
            false => None,
        };
        let mut binder = Binder::new(catalog, &[]);
        let value = |column: usize| match columns.iter().position(|other| *other == column) {
            Some(place) => Ok(Expr::Column(place)),
            None => binder.default_of(table, column),
        };
        let values = (0..table.columns.len()).map(value).collect::<Result<_>>()?;
        let types = columns.iter().map(|&column| table.columns[column].ty).collect();
        Ok(Self { format, is_in: !*to, table: name, query, columns, types, values })
    }

    pub(crate) fn is_in(&self) -> bool {
        self.is_in
    }

    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    pub(crate) fn query(&self) -> &Arc<ast::Query> {
        self.query.as_ref().expect("COPY TO has a query")
    }

    /// Whether the first line has the names of columns.
    pub fn has_header(&self) -> bool {
        self.format.header
    }

    /// Columns of a line, for what the protocol says about it; of COPY TO, those of the query.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// Lines for rows.
    pub(crate) fn lines(&self, columns: &[OutputColumn], rows: &[Row]) -> Result<Vec<Vec<u8>>> {
        let mut lines = Vec::with_capacity(rows.len() + 1);
        if self.format.header {
            let names = columns.iter().map(|column| Some(column.name.clone()));
            lines.push(self.format.line(names));
        }
        for row in rows {
            let fields = columns.iter().zip(row).map(|(column, value)| match value {
                Datum::Null => None,
                value => Some(text::format(value, column.ty)),
            });
            lines.push(self.format.line(fields));
        }
        Ok(lines)
    }

    /// A reader of what a client sends.
    pub fn reader(&self) -> CopyReader<'_> {
        CopyReader {
            plan: self,
            pending: Vec::new(),
            skips_header: self.format.header,
            line: 0,
            has_ended: false,
        }
    }

    pub(crate) fn insert(
        &self,
        exec: &mut Exec<'_, '_>,
        table: &TableDef,
        rows: &[Row],
    ) -> Result<u64> {
        for row in rows {
            let values = exec.eval_all(&self.values, row)?;
            store::insert(exec.work, exec.hidden, table, &values)?;
        }
        Ok(rows.len() as u64)
    }
}

/// The query for all rows of a table.
fn query_of(table: &TableDef, columns: &[usize]) -> Result<ast::Query> {
    let names = columns
        .iter()
        .map(|&column| format!("\"{}\"", table.columns[column].name.replace('"', "\"\"")));
    let names = names.collect::<Vec<_>>().join(", ");
    let sql = format!("SELECT {names} FROM \"{}\"", table.name.replace('"', "\"\""));
    match crate::parse::statements(&sql)?.pop() {
        Some(ast::Statement::Query(query)) => Ok(*query),
        _ => Err(SqlError::new(state::INTERNAL, "COPY made no query")),
    }
}

impl Format {
    fn of(options: &[ast::CopyOption], legacy: &[ast::CopyLegacyOption]) -> Result<Self> {
        let mut csv = false;
        let (mut delimiter, mut null, mut header) = (None, None, false);
        let (mut quote, mut escape) = (None, None);
        for option in options {
            match option {
                ast::CopyOption::Format(name) => match &*name_of(name) {
                    "csv" => csv = true,
                    "text" => csv = false,
                    other => {
                        return Err(SqlError::unsupported(format_args!("the format {other}")));
                    }
                },
                ast::CopyOption::Delimiter(char) => delimiter = Some(*char),
                ast::CopyOption::Null(text) => null = Some(text.clone()),
                ast::CopyOption::Header(is_there) => header = *is_there,
                ast::CopyOption::Quote(char) => quote = Some(*char),
                ast::CopyOption::Escape(char) => escape = Some(*char),
                // All rows appear at the end of their transaction.
                ast::CopyOption::Freeze(_) => {}
                ast::CopyOption::Encoding(name) if name.eq_ignore_ascii_case("utf8") => {}
                other => return Err(SqlError::unsupported(format_args!("COPY {other}"))),
            }
        }
        for option in legacy {
            match option {
                ast::CopyLegacyOption::Csv(options) => {
                    csv = true;
                    for option in options {
                        match option {
                            ast::CopyLegacyCsvOption::Header => header = true,
                            ast::CopyLegacyCsvOption::Quote(char) => quote = Some(*char),
                            ast::CopyLegacyCsvOption::Escape(char) => escape = Some(*char),
                            other => {
                                return Err(SqlError::unsupported(format_args!("COPY {other}")));
                            }
                        }
                    }
                }
                ast::CopyLegacyOption::Delimiter(char) => delimiter = Some(*char),
                ast::CopyLegacyOption::Null(text) => null = Some(text.clone()),
                ast::CopyLegacyOption::Header => header = true,
                other => return Err(SqlError::unsupported(format_args!("COPY {other}"))),
            }
        }
        let byte = |char: Option<char>, otherwise: u8| match char {
            None => Ok(otherwise),
            Some(char) => u8::try_from(char).ok().filter(u8::is_ascii).ok_or_else(|| {
                let message = "COPY's delimiter, quote and escape are single one-byte characters";
                SqlError::new(state::INVALID_PARAMETER_VALUE, message)
            }),
        };
        let quote = byte(quote, b'"')?;
        Ok(Self {
            csv,
            delimiter: byte(delimiter, if csv { b',' } else { b'\t' })?,
            null: null.unwrap_or_else(|| if csv { "" } else { "\\N" }.to_owned()),
            header,
            quote,
            escape: byte(escape, quote)?,
        })
    }

    fn line(&self, fields: impl Iterator<Item = Option<String>>) -> Vec<u8> {
        let mut line = Vec::new();
        for (number, field) in fields.enumerate() {
            if number > 0 {
                line.push(self.delimiter);
            }
            match field {
                None => line.extend(self.null.as_bytes()),
                Some(text) if self.csv => self.quoted(&text, &mut line),
                Some(text) => self.escaped(&text, &mut line),
            }
        }
        line.push(b'\n');
        line
    }

    fn quoted(&self, text: &str, line: &mut Vec<u8>) {
        let is_special = |byte: u8| {
            byte == self.delimiter || byte == self.quote || byte == b'\n' || byte == b'\r'
        };
        if text != self.null && !text.bytes().any(is_special) && text != "\\." {
            return line.extend(text.as_bytes());
        }
        line.push(self.quote);
        for byte in text.bytes() {
            if byte == self.quote || byte == self.escape {
                line.push(self.escape);
            }
            line.push(byte);
        }
        line.push(self.quote);
    }

    fn escaped(&self, text: &str, line: &mut Vec<u8>) {
        for byte in text.bytes() {
            match byte {
                b'\\' => line.extend(b"\\\\"),
                b'\n' => line.extend(b"\\n"),
                b'\r' => line.extend(b"\\r"),
                b'\t' => line.extend(b"\\t"),
                byte if byte == self.delimiter => line.extend([b'\\', byte]),
                byte => line.push(byte),
            }
        }
    }
}

/// Reads lines that a client sends in pieces.
pub struct CopyReader<'p> {
    plan: &'p CopyPlan,
    pending: Vec<u8>,
    skips_header: bool,
    line: u64,
    has_ended: bool,
}

impl CopyReader<'_> {
    /// The rows that are whole with these bytes.
    ///
    /// # Errors
    /// That a line is no row of the table.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Row>> {
        self.pending.extend_from_slice(bytes);
        let mut rows = Vec::new();
        let mut start = 0;
        while let Some(length) = self.line_length(start) {
            let line = self.pending[start..start + length].to_vec();
            start += length + 1;
            rows.extend(self.row(&line)?);
        }
        self.pending.drain(..start);
        if self.pending.len() > MAX_LINE {
            let message = format!("a line of COPY has more than {MAX_LINE} bytes");
            return Err(SqlError::new(state::PROGRAM_LIMIT, message));
        }
        Ok(rows)
    }

    /// The row of what is left: a last line without its end.
    ///
    /// # Errors
    /// As of [`feed`](Self::feed).
    pub fn finish(&mut self) -> Result<Vec<Row>> {
        let line = std::mem::take(&mut self.pending);
        if line.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.row(&line)?.into_iter().collect())
    }

    /// Bytes of the line that begins at `start`, if it is whole. Quotes may hold ends of lines.
    fn line_length(&self, start: usize) -> Option<usize> {
        let rest = &self.pending[start..];
        if !self.plan.format.csv {
            return rest.iter().position(|&byte| byte == b'\n');
        }
        let mut is_quoted = false;
        rest.iter().position(|&byte| {
            is_quoted ^= byte == self.plan.format.quote;
            byte == b'\n' && !is_quoted
        })
    }

    fn row(&mut self, line: &[u8]) -> Result<Option<Row>> {
        self.line += 1;
        if self.has_ended || std::mem::take(&mut self.skips_header) {
            return Ok(None);
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line == b"\\." {
            self.has_ended = true;
            return Ok(None);
        }
        let format = &self.plan.format;
        let fields =
            if format.csv { csv_fields(format, line)? } else { text_fields(format, line)? };
        let types = &self.plan.types;
        if fields.len() != types.len() {
            let what = if fields.len() < types.len() { "missing data" } else { "extra data" };
            let message = format!("{what} for table \"{}\", line {}", self.plan.table, self.line);
            return Err(SqlError::new(state::BAD_COPY_FORMAT, message));
        }
        let value = |(field, ty): (Option<Vec<u8>>, &DataType)| match field {
            None => Ok(Datum::Null),
            Some(bytes) => {
                let text = String::from_utf8(bytes).map_err(|_| {
                    SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\"")
                })?;
                text::parse(&text, *ty)
            }
        };
        let row = fields.into_iter().zip(types).map(value).collect::<Result<Row>>();
        row.map(Some).map_err(|error| {
            error.with_detail(format!("COPY {}, line {}", self.plan.table, self.line))
        })
    }
}

fn text_fields(format: &Format, line: &[u8]) -> Result<Vec<Option<Vec<u8>>>> {
    let mut fields = Vec::new();
    let mut raw = Vec::new();
    let mut bytes = line.iter().copied();
    let mut field = Vec::new();
    let mut end = |raw: &mut Vec<u8>, field: &mut Vec<u8>| {
        let is_null = *raw == format.null.as_bytes();
        raw.clear();
        let field = std::mem::take(field);
        fields.push((!is_null).then_some(field));
    };
    while let Some(byte) = bytes.next() {
        if byte == format.delimiter {
            end(&mut raw, &mut field);
            continue;
        }
        raw.push(byte);
        if byte != b'\\' {
            field.push(byte);
            continue;
        }
        let Some(next) = bytes.next() else {
            field.push(byte);
            break;
        };
        raw.push(next);
        field.push(match next {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            other => other,
        });
    }
    end(&mut raw, &mut field);
    Ok(fields)
}

fn csv_fields(format: &Format, line: &[u8]) -> Result<Vec<Option<Vec<u8>>>> {
    let mut fields = Vec::new();
    let (mut field, mut was_quoted, mut is_quoted) = (Vec::new(), false, false);
    let mut at = 0;
    while at < line.len() {
        let byte = line[at];
        let next = line.get(at + 1).copied();
        at += 1;
        match byte {
            byte if is_quoted
                && byte == format.escape
                && next.is_some_and(|next| next == format.quote || next == format.escape) =>
            {
                field.extend(next);
                at += 1;
            }
            byte if is_quoted && byte == format.quote => is_quoted = false,
            byte if is_quoted => field.push(byte),
            byte if byte == format.quote => (is_quoted, was_quoted) = (true, true),
            byte if byte == format.delimiter => {
                let value = std::mem::take(&mut field);
                let is_null = !std::mem::take(&mut was_quoted) && value == format.null.as_bytes();
                fields.push((!is_null).then_some(value));
            }
            byte => field.push(byte),
        }
    }
    if is_quoted {
        return Err(SqlError::new(state::BAD_COPY_FORMAT, "unterminated CSV quoted field"));
    }
    let is_null = !was_quoted && field == format.null.as_bytes();
    fields.push((!is_null).then_some(field));
    Ok(fields)
}
