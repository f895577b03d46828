//! From text to syntax.

use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, TokenizerError};

use crate::error::{Result, SqlError, state};

/// Bytes of a query at most.
const MAX_QUERY: usize = 16 << 20;

/// Operators of a statement at most: each may nest an expression one deeper.
const MAX_OPERATORS: usize = 20_000;

fn syntax_error(message: impl Into<String>) -> SqlError {
    SqlError::new(state::SYNTAX_ERROR, message)
}

/// The statements of a query.
///
/// # Errors
/// That it is no SQL, or it is too long.
pub(crate) fn statements(sql: &str) -> Result<Vec<ast::Statement>> {
    if sql.len() > MAX_QUERY {
        let message = format!("a query has at most {MAX_QUERY} bytes");
        return Err(SqlError::new(state::PROGRAM_LIMIT, message));
    }
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, sql).tokenize_with_location();
    let tokens = tokens.map_err(|TokenizerError { message, location }| {
        syntax_error(format!("syntax error at line {}: {message}", location.line))
    })?;
    let operators = tokens.iter().filter(|token| is_operator(&token.token)).count();
    if operators > MAX_OPERATORS {
        let message = format!("a query has at most {MAX_OPERATORS} operators");
        return Err(SqlError::new(state::TOO_COMPLEX, message));
    }
    let tokens = plain_options(tokens);
    let parsed = Parser::new(&dialect).with_tokens_with_locations(tokens).parse_statements();
    parsed.map_err(|error| {
        let text = error.to_string();
        let message = text.trim_start_matches("sql parser error: ");
        match error {
            sqlparser::parser::ParserError::RecursionLimitExceeded => {
                let message = "stack depth limit exceeded: the statement is nested too deeply";
                SqlError::new(state::TOO_COMPLEX, message)
            }
            _ => syntax_error(format!("syntax error: {message}")),
        }
    })
}

/// The tokens of COPY with `true` for `on` behind an option, and those of VACUUM without options:
/// the parser does not know them.
fn plain_options(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let word = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
        _ => String::new(),
    };
    let first = tokens.iter().find(|token| !is_space(token));
    match first.map(word).as_deref() {
        Some("copy") => {}
        Some("vacuum") => {
            // It does nothing, whatever else it is to do.
            let more = ["analyze", "verbose", "freeze"];
            tokens.retain(|token| !more.contains(&word(token).as_str()));
            return tokens;
        }
        _ => return tokens,
    }
    let mut is_option = false;
    for token in tokens.iter_mut().filter(|token| !is_space(token)) {
        let own = word(token);
        match own.as_str() {
            "on" if is_option => token.token = Token::make_keyword("TRUE"),
            "off" if is_option => token.token = Token::make_keyword("FALSE"),
            _ => {}
        }
        is_option = own == "freeze" || own == "header";
    }
    tokens
}

/// An expression on its own.
pub(crate) fn expression(sql: &str) -> Result<ast::Expr> {
    let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql);
    let parsed = parser.and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|error| syntax_error(format!("syntax error: {error}")))
}

fn is_operator(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::UNION
                | Keyword::EXCEPT
                | Keyword::INTERSECT
                | Keyword::JOIN
                | Keyword::IS
                | Keyword::LIKE
        ),
        Token::Plus
        | Token::Mul
        | Token::Div
        | Token::Mod
        | Token::StringConcat
        | Token::DoubleColon
        | Token::Caret => true,
        _ => false,
    }
}
