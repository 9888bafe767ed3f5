//! `PREPARE`, `EXECUTE` and `DEALLOCATE`: statements that are parsed once, with parameters.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Statement as SqlStatement, Value, VisitMut, VisitorMut,
};

use crate::Result;
use crate::precedence::regroup;
use crate::tables::point::PointStatement;
use crate::tables::point::value::datum;
use crate::tables::session::{normal, refused, refused_as};

/// Parameters of a statement at most.
const PARAMETERS_MAX: usize = 65_535;

/// A statement that was prepared.
pub(crate) struct Prepared {
    pub(crate) statement: SqlStatement,
    /// The types of its first parameters, where the statement says them.
    types: Vec<DataType>,
    parameters: usize,
    pub(crate) compiled: Compiled,
}

/// Whether a prepared statement is one on single rows.
#[derive(Clone, Default)]
pub(crate) enum Compiled {
    /// That was not asked yet, or the table was not there, or of another kind.
    #[default]
    Unknown,
    /// It is not, whatever its table is.
    No,
    Point(Arc<PointStatement>),
}

/// The prepared statements of a session, by their names.
#[derive(Default)]
pub(crate) struct PreparedStatements(BTreeMap<String, Prepared>);

/// What a session does with a statement.
pub(crate) enum Asked {
    /// It was prepared, or forgotten.
    Done,
    /// It is to be run.
    Run(Box<SqlStatement>),
    /// The prepared statement of this name is to be run, with values of its parameters.
    Execute(String, Vec<Expr>),
}

impl PreparedStatements {
    /// Prepares a statement or forgets one; says which one is to be executed, and gives others as they are.
    pub(crate) fn ask(&mut self, statement: SqlStatement) -> Result<Asked> {
        match statement {
            SqlStatement::Prepare { name, data_types, statement } => {
                let name = normal(&name);
                if self.0.contains_key(&name) {
                    return refused_as(
                        "42P05",
                        format!("there is a prepared statement `{name}` already: DEALLOCATE it"),
                    );
                }
                let mut statement = *statement;
                regroup(&mut statement);
                let is_known = matches!(
                    statement,
                    SqlStatement::Query(_)
                        | SqlStatement::Insert(_)
                        | SqlStatement::Update(_)
                        | SqlStatement::Delete(_)
                );
                if !is_known {
                    return refused("SELECT, INSERT, UPDATE and DELETE can be prepared");
                }
                let parameters = count_parameters(&mut statement)?;
                let prepared = Prepared {
                    statement,
                    parameters: parameters.max(data_types.len()),
                    types: data_types,
                    compiled: Compiled::Unknown,
                };
                self.0.insert(name, prepared);
                Ok(Asked::Done)
            }
            SqlStatement::Execute { name: Some(name), parameters, using, into, .. }
                if using.is_empty() && into.is_empty() =>
            {
                let Some(part) = name.0.last().and_then(|part| part.as_ident()) else {
                    return refused(format!("`{name}` is no name of a prepared statement"));
                };
                Ok(Asked::Execute(normal(part), parameters))
            }
            SqlStatement::Deallocate { name, .. } => {
                let name = normal(&name);
                match name.as_str() {
                    "all" => self.0.clear(),
                    name if self.0.remove(name).is_none() => {
                        return refused_as(
                            "26000",
                            format!("there is no prepared statement `{name}`"),
                        );
                    }
                    _ => {}
                }
                Ok(Asked::Done)
            }
            other => Ok(Asked::Run(Box::new(other))),
        }
    }

    /// The prepared statement of a name, which takes so many parameters.
    fn get(&mut self, name: &str, have: usize) -> Result<&mut Prepared> {
        let Some(prepared) = self.0.get_mut(name) else {
            return refused_as("26000", format!("there is no prepared statement `{name}`"));
        };
        match prepared.parameters {
            need if need != have => refused_as(
                "42601",
                format!("`{name}` takes {need} parameters, and {have} are given"),
            ),
            _ => Ok(prepared),
        }
    }

    /// A prepared statement with values in the place of its parameters.
    pub(crate) fn with(&mut self, name: &str, values: Vec<Expr>) -> Result<Box<SqlStatement>> {
        Ok(Box::new(self.get(name, values.len())?.with(values)?))
    }

    /// A prepared statement, and the values of its parameters in the types that were declared; nothing for values that are to be
    /// converted.
    pub(crate) fn compiled(
        &mut self,
        name: &str,
        values: &[ScalarValue],
    ) -> Result<Option<(&mut Prepared, Vec<ScalarValue>)>> {
        let prepared = self.get(name, values.len())?;
        let mut typed = values.to_vec();
        for (of, value) in prepared.types.iter().zip(&mut typed) {
            let declared = declared_type(of);
            let Some(declared) = declared.filter(|declared| datum(value, declared).is_some())
            else {
                return Ok(None);
            };
            // It tells how wide sums are.
            *value = value.cast_to(&declared)?;
        }
        Ok(Some((prepared, typed)))
    }

    /// Compiles a prepared statement again when it is executed next.
    pub(crate) fn forget_compiled(&mut self, name: &str) {
        if let Some(prepared) = self.0.get_mut(name) {
            prepared.compiled = Compiled::Unknown;
        }
    }
}

/// The type of a parameter that is declared with such a type; `None` for those whose values are converted.
fn declared_type(of: &DataType) -> Option<ArrowType> {
    Some(match of {
        DataType::SmallInt(None) => ArrowType::Int16,
        DataType::Int(None) | DataType::Integer(None) => ArrowType::Int32,
        DataType::BigInt(None) => ArrowType::Int64,
        DataType::Text | DataType::Varchar(None) => ArrowType::Utf8View,
        DataType::Boolean => ArrowType::Boolean,
        _ => return None,
    })
}

impl Prepared {
    /// The statement with values in the place of its parameters.
    fn with(&self, values: Vec<Expr>) -> Result<SqlStatement> {
        let mut typed = Vec::with_capacity(values.len());
        for (place, mut value) in values.into_iter().enumerate() {
            if value.visit(&mut Columns).is_break() {
                return refused(format!(
                    "parameter ${} is no constant: EXECUTE takes values",
                    place + 1
                ));
            }
            typed.push(match self.types.get(place) {
                Some(data_type) => Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(Expr::Nested(Box::new(value))),
                    data_type: data_type.clone(),
                    array: false,
                    format: None,
                },
                // LIMIT takes a number as it is.
                None if matches!(value, Expr::Value(_)) => value,
                None => Expr::Nested(Box::new(value)),
            });
        }
        let mut statement = self.statement.clone();
        let _ = statement.visit(&mut Replace(&typed));
        Ok(statement)
    }
}

/// The number of a parameter, as of `$1`.
pub(crate) fn parameter(expr: &Expr) -> Option<usize> {
    let Expr::Value(value) = expr else { return None };
    let Value::Placeholder(text) = &value.value else { return None };
    text.strip_prefix('$')?.parse().ok().filter(|number| *number > 0)
}

/// How many parameters a statement has: the highest of their numbers.
fn count_parameters(statement: &mut SqlStatement) -> Result<usize> {
    struct Count(usize);
    impl VisitorMut for Count {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            self.0 = self.0.max(parameter(expr).unwrap_or(0));
            ControlFlow::Continue(())
        }
    }
    let mut count = Count(0);
    let _ = statement.visit(&mut count);
    match count.0 {
        count if count <= PARAMETERS_MAX => Ok(count),
        count => refused_as("42P02", format!("there is no parameter ${count}")),
    }
}

/// Breaks at what is no constant.
struct Columns;

impl VisitorMut for Columns {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let is_other = parameter(expr).is_some()
            || matches!(
                expr,
                Expr::Identifier(_)
                    | Expr::CompoundIdentifier(_)
                    | Expr::Subquery(_)
                    | Expr::Exists { .. }
                    | Expr::InSubquery { .. }
            );
        if is_other { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Puts values in the place of parameters.
struct Replace<'a>(&'a [Expr]);

impl VisitorMut for Replace<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let value = parameter(expr).and_then(|number| self.0.get(number - 1));
        if let Some(value) = value {
            expr.clone_from(value);
        }
        ControlFlow::Continue(())
    }
}
