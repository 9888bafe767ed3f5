//! Integers that overflow are errors.
//!
//! DataFusion's `+`, `-`, `*` and `sum` of integers wrap around. An answer that is wrong without a word is of no use, so this
//! rule has them computed in a wider type and cast back, which fails where the result does not fit: 64-bit integers and
//! unsigned ones of 32 bits as decimals of 38 digits, shorter ones as 64-bit integers. The types of answers stay as they were.
//! Where nothing needs the narrow type, as in a comparison, the wide result is right and there is no error.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ExprSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunctionDefinition};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, Projection, Window,
};
use datafusion::optimizer::AnalyzerRule;

/// See the module.
#[derive(Debug)]
pub(crate) struct OverflowIsAnError;

impl AnalyzerRule for OverflowIsAnError {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let checked = plan.transform_up_with_subqueries(|plan| {
            let plan = check_arithmetic(plan)?;
            match plan {
                LogicalPlan::Aggregate(aggregate) => check_sums(aggregate),
                LogicalPlan::Window(window) => check_window_sums(window),
                plan => Ok(Transformed::yes(plan.recompute_schema()?)),
            }
        });
        Ok(checked?.data)
    }

    fn name(&self) -> &str {
        "overflow_is_an_error"
    }
}

/// A type that holds whatever two integers of type `of` make.
fn wider(of: &DataType) -> Option<DataType> {
    match of {
        DataType::Int64 | DataType::UInt64 | DataType::UInt32 => Some(DataType::Decimal128(20, 0)),
        DataType::Int8 | DataType::Int16 | DataType::Int32 => Some(DataType::Int64),
        DataType::UInt8 | DataType::UInt16 => Some(DataType::Int64),
        _ => None,
    }
}

fn cast(expr: Expr, to: DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr), to))
}

fn check_arithmetic(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&scan.projected_schema);
    }
    let names = NamePreserver::new(&plan);
    let checked = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let checked = expr.transform_up(|expr| checked(expr, &schema))?;
        Ok(checked.update_data(|expr| name.restore(expr)))
    });
    Ok(checked?.data)
}

fn checked(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Expr::Negative(of) = &expr {
        let of_type = of.get_type(schema)?;
        return Ok(match wider(&of_type) {
            Some(wide) => {
                let negative = Expr::Negative(Box::new(cast((**of).clone(), wide)));
                Transformed::yes(cast(negative, of_type))
            }
            None => Transformed::no(expr),
        });
    }
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let expr = BinaryExpr { left, op, right };
    let wide = match expr.op {
        Operator::Plus | Operator::Minus | Operator::Multiply => {
            // Dates and intervals have arithmetic of their own.
            let (left, right) = (expr.left.get_type(schema)?, expr.right.get_type(schema)?);
            wider(&left).filter(|_| right == left).map(|wide| (left, wide))
        }
        _ => None,
    };
    let Some((narrow, wide)) = wide else {
        return Ok(Transformed::no(Expr::BinaryExpr(expr)));
    };
    let BinaryExpr { left, op, right } = expr;
    let (left, right) = (cast(*left, wide.clone()), cast(*right, wide));
    let result = Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)));
    Ok(Transformed::yes(cast(result, narrow)))
}

/// Sums of 64-bit integers among `exprs` as sums of decimals; `None` when there are none.
fn with_wide_sums(exprs: &[Expr], schema: &DFSchema) -> Result<Option<Vec<Expr>>> {
    let mut has_sums = false;
    let mut wide = |args: &mut Vec<Expr>| -> Result<()> {
        let [arg] = &args[..] else { return Ok(()) };
        if let Some(wide) = wider(&arg.get_type(schema)?) {
            has_sums = true;
            *args = vec![cast(arg.clone(), wide)];
        }
        Ok(())
    };
    let mut all = Vec::with_capacity(exprs.len());
    for expr in exprs {
        let changed = expr.clone().transform_up(|mut expr| {
            match &mut expr {
                Expr::AggregateFunction(AggregateFunction { func, params })
                    if func.name() == "sum" =>
                {
                    wide(&mut params.args)?;
                }
                Expr::WindowFunction(window) => {
                    // A sum of distinct values over a moving window is there for 64-bit integers alone.
                    if let WindowFunctionDefinition::AggregateUDF(func) = &window.fun
                        && func.name() == "sum"
                        && !window.params.distinct
                    {
                        wide(&mut window.params.args)?;
                    }
                }
                _ => {}
            }
            Ok(Transformed::yes(expr))
        });
        all.push(changed?.data);
    }
    Ok(has_sums.then_some(all))
}

fn check_sums(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let schema = aggregate.input.schema();
    let Some(sums) = with_wide_sums(&aggregate.aggr_expr, schema)? else {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    };
    let input = Arc::clone(&aggregate.input);
    let wide = Aggregate::try_new(input, aggregate.group_expr.clone(), sums)?;
    narrowed(LogicalPlan::Aggregate(wide), &aggregate.schema)
}

fn check_window_sums(window: Window) -> Result<Transformed<LogicalPlan>> {
    let Some(sums) = with_wide_sums(&window.window_expr, window.input.schema())? else {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    };
    let wide = Window::try_new(sums, Arc::clone(&window.input))?;
    narrowed(LogicalPlan::Window(wide), &window.schema)
}

/// A plan whose columns have the names and types of `schema`.
fn narrowed(plan: LogicalPlan, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    let columns = plan.schema().columns();
    let narrow = columns.into_iter().zip(schema.iter()).map(|(column, (relation, field))| {
        let is_same = plan.schema().data_type(&column).is_ok_and(|has| has == field.data_type());
        let expr = Expr::Column(column);
        let expr = if is_same { expr } else { cast(expr, field.data_type().clone()) };
        expr.alias_qualified(relation.cloned(), field.name())
    });
    let narrow: Vec<Expr> = narrow.collect();
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(narrow, Arc::new(plan))?)))
}
