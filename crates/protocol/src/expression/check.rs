//! From CEL's syntax tree to the typed tree. A list of what is allowed: everything else is
//! rejected.

use std::collections::BTreeSet;

use cel::IdedExpr;
use cel::common::ast::{CallExpr, Expr, ListExpr, LiteralValue, SourceInfo, operators};

use super::error::{ExpressionError, Position, Reason};
use super::tree::{Bool, Comparison, Int, List, Operation, Text, Tree, Whole};
use super::{MAX_LIST, MAX_NODES, Type, Value};

type Checked<T> = Result<T, ExpressionError>;

/// What a syntax tree says.
pub(super) struct Contents {
    /// The typed tree.
    pub(super) tree: Tree,
    /// The attributes that it reads.
    pub(super) attributes: BTreeSet<String>,
    /// The numbers and texts in it, with their places.
    pub(super) literals: Vec<(Value, Position)>,
}

/// Checks a syntax tree.
pub(super) fn check(
    syntax: &IdedExpr,
    info: &SourceInfo,
    declared: &dyn Fn(&str) -> Option<Type>,
) -> Checked<Contents> {
    let (attributes, literals) = (BTreeSet::new(), Vec::new());
    let mut check = Check { info, declared, attributes, literals, nodes: 0 };
    let tree = check.tree(syntax)?;
    Ok(Contents { tree, attributes: check.attributes, literals: check.literals })
}

struct Check<'a> {
    info: &'a SourceInfo,
    declared: &'a dyn Fn(&str) -> Option<Type>,
    attributes: BTreeSet<String>,
    literals: Vec<(Value, Position)>,
    nodes: usize,
}

impl Check<'_> {
    fn tree(&mut self, node: &IdedExpr) -> Checked<Tree> {
        self.count(node)?;
        match &node.expr {
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(value) => Ok(Tree::Bool(Bool::Literal(*value.inner()))),
                LiteralValue::Int(value) => {
                    self.note(node, Value::Int(*value.inner()));
                    Ok(Tree::Int(Int::Literal(*value.inner())))
                }
                LiteralValue::String(text) => {
                    self.note(node, Value::String(text.inner().to_owned()));
                    Ok(Tree::String(Text::Literal(text.inner().to_owned())))
                }
                LiteralValue::UInt(_) => Err(self.unsupported(node, "an unsigned integer")),
                LiteralValue::Double(_) => Err(self.unsupported(node, "a floating-point number")),
                LiteralValue::Bytes(_) => Err(self.unsupported(node, "bytes")),
                LiteralValue::Null => Err(self.unsupported(node, "null")),
            },
            Expr::Ident(name) => self.attribute(node, name),
            Expr::Call(call) => self.call(node, call),
            Expr::List(list) => self.list(node, list),
            Expr::Select(select) if select.test => Err(self.unsupported(node, "the macro has")),
            Expr::Select(select) => {
                Err(self.unsupported(node, &format!("selection of the field {:?}", select.field)))
            }
            Expr::Comprehension(_) => {
                Err(self.unsupported(node, "a macro over a list (all, exists, map, filter)"))
            }
            Expr::Map(_) => Err(self.unsupported(node, "a map")),
            Expr::Struct(_) => Err(self.unsupported(node, "a struct")),
            Expr::Unspecified => Err(self.unsupported(node, "an empty part")),
        }
    }

    fn attribute(&mut self, node: &IdedExpr, name: &str) -> Checked<Tree> {
        let Some(declared) = (self.declared)(name) else {
            return Err(self.at(node, Reason::Undeclared(name.to_owned())));
        };
        self.attributes.insert(name.to_owned());
        Ok(match declared {
            Type::Bool => Tree::Bool(Bool::Attribute(name.to_owned())),
            Type::Int => Tree::Int(Int::Attribute(name.to_owned())),
            Type::String => Tree::String(Text::Attribute(name.to_owned())),
            Type::List => Tree::List(List::Attribute(name.to_owned())),
            Type::Vector(length) => Tree::Vector(length, Whole::Attribute(name.to_owned())),
        })
    }

    /// A list that is a value.
    fn list(&mut self, node: &IdedExpr, list: &ListExpr) -> Checked<Tree> {
        if list.elements.len() > MAX_LIST {
            return Err(self.at(node, Reason::ListTooLong));
        }
        let element = |node: &IdedExpr| match self.tree(node)? {
            element @ (Tree::Int(_) | Tree::String(_)) => Ok(element),
            Tree::List(_) => Err(self.unsupported(node, "a list in a list")),
            other => {
                let found = other.result_type();
                let text = format!("the elements of a list are ints or strings, not {found}");
                Err(self.at(node, Reason::Types(text)))
            }
        };
        let elements = list.elements.iter().map(element).collect::<Checked<_>>()?;
        Ok(Tree::List(List::Literal(elements)))
    }

    fn call(&mut self, node: &IdedExpr, call: &CallExpr) -> Checked<Tree> {
        if call.target.is_some() {
            return Err(self.unsupported(node, &format!("the method {:?}", call.func_name)));
        }
        let name = call.func_name.as_str();
        match call.args.as_slice() {
            [of] if name == operators::LOGICAL_NOT => {
                Ok(Tree::Bool(Bool::Not(Box::new(self.bool(of, "!")?))))
            }
            [of] if name == operators::NEGATE => match self.tree(of)? {
                Tree::Int(tree) => Ok(Tree::Int(Int::Negate(Box::new(tree)))),
                other => Err(self.wanted(of, "-", Type::Int, &other)),
            },
            [condition, then, otherwise] if name == operators::CONDITIONAL => {
                self.choice(node, condition, then, otherwise)
            }
            [left, right] => self.binary(node, name, left, right),
            _ => Err(self.no_operator(node, name)),
        }
    }

    fn binary(
        &mut self,
        node: &IdedExpr,
        name: &str,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> Checked<Tree> {
        if name == operators::LOGICAL_AND || name == operators::LOGICAL_OR {
            let sign = name.trim_matches('_');
            let (left, right) = (self.bool(left, sign)?, self.bool(right, sign)?);
            let join = if name == operators::LOGICAL_AND { Bool::And } else { Bool::Or };
            Ok(Tree::Bool(join(Box::new(left), Box::new(right))))
        } else if name == operators::IN {
            self.membership(left, right).map(Tree::Bool)
        } else if let Some(comparison) = comparison(name) {
            self.compare(node, name, comparison, left, right).map(Tree::Bool)
        } else if let Some(operation) = operation(name) {
            let sides = (self.tree(left)?, self.tree(right)?);
            match sides {
                (Tree::Int(left), Tree::Int(right)) => {
                    Ok(Tree::Int(Int::Calculate(operation, Box::new((left, right)))))
                }
                (left, right) => Err(self.no_overload(node, name, &left, &right)),
            }
        } else {
            Err(self.no_operator(node, name))
        }
    }

    fn compare(
        &mut self,
        node: &IdedExpr,
        name: &str,
        comparison: Comparison,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> Checked<Bool> {
        let is_order = !matches!(comparison, Comparison::Equal | Comparison::NotEqual);
        match (self.tree(left)?, self.tree(right)?) {
            (Tree::Bool(left), Tree::Bool(right)) if !is_order => {
                Ok(Bool::CompareBools(comparison, Box::new(left), Box::new(right)))
            }
            (Tree::Int(left), Tree::Int(right)) => Ok(Bool::CompareInts(comparison, left, right)),
            (Tree::String(left), Tree::String(right)) => {
                Ok(Bool::CompareStrings(comparison, left, right))
            }
            (left, right) => Err(self.no_overload(node, name, &left, &right)),
        }
    }

    fn choice(
        &mut self,
        node: &IdedExpr,
        condition: &IdedExpr,
        then: &IdedExpr,
        otherwise: &IdedExpr,
    ) -> Checked<Tree> {
        let condition = self.bool(condition, "?")?;
        match (self.tree(then)?, self.tree(otherwise)?) {
            (Tree::Bool(then), Tree::Bool(otherwise)) => {
                Ok(Tree::Bool(Bool::Choice(Box::new((condition, then, otherwise)))))
            }
            (Tree::Int(then), Tree::Int(otherwise)) => {
                Ok(Tree::Int(Int::Choice(Box::new((condition, then, otherwise)))))
            }
            (Tree::String(then), Tree::String(otherwise)) => {
                Ok(Tree::String(Text::Choice(Box::new((condition, then, otherwise)))))
            }
            (Tree::List(then), Tree::List(otherwise)) => {
                Ok(Tree::List(List::Choice(Box::new((condition, then, otherwise)))))
            }
            (Tree::Vector(length, then), Tree::Vector(other, otherwise)) if length == other => {
                Ok(Tree::Vector(length, Whole::Choice(Box::new((condition, then, otherwise)))))
            }
            (then, otherwise) => {
                let (then, otherwise) = (then.result_type(), otherwise.result_type());
                let text = format!("the branches of `?` are {then} and {otherwise}: one type only");
                Err(self.at(node, Reason::Types(text)))
            }
        }
    }

    /// `left in [literals]`, or `left in attribute`.
    fn membership(&mut self, left: &IdedExpr, right: &IdedExpr) -> Checked<Bool> {
        let element = self.tree(left)?;
        self.count(right)?;
        let list = match &right.expr {
            Expr::List(list) => list,
            Expr::Ident(name) => return self.in_attribute(element, right, name),
            _ => {
                return Err(
                    self.unsupported(right, "`in` something that is not a list of literals")
                );
            }
        };
        if list.elements.is_empty() {
            return Err(self.at(right, Reason::Types("`in` an empty list".to_owned())));
        }
        if list.elements.len() > MAX_LIST {
            return Err(self.at(right, Reason::ListTooLong));
        }
        let found = match element {
            Tree::Bool(tree) => {
                Bool::InBools(Box::new(tree), self.literals(list, Type::Bool, bool_literal)?)
            }
            Tree::Int(tree) => Bool::InInts(tree, self.literals(list, Type::Int, int_literal)?),
            Tree::String(tree) => {
                Bool::InStrings(tree, self.literals(list, Type::String, string_literal)?)
            }
            other @ (Tree::List(_) | Tree::Vector(..)) => {
                let found = other.result_type();
                let text = format!("`in` is for one bool, int or string, not for {found}");
                return Err(self.at(left, Reason::Types(text)));
            }
        };
        Ok(found)
    }

    fn in_attribute(&mut self, element: Tree, node: &IdedExpr, name: &str) -> Checked<Bool> {
        match (element, self.attribute(node, name)?) {
            (Tree::String(text), Tree::List(_)) => Ok(Bool::InAttribute(text, name.to_owned())),
            (other, Tree::List(_)) => {
                let text = format!("`{name}` holds strings, so no {}", other.result_type());
                Err(self.at(node, Reason::Types(text)))
            }
            _ => Err(self.unsupported(node, "`in` something that is not a list of literals")),
        }
    }

    fn literals<T>(
        &mut self,
        list: &ListExpr,
        wanted: Type,
        read: impl Fn(&LiteralValue) -> Option<T>,
    ) -> Checked<Vec<T>> {
        let read = |node: &IdedExpr| {
            self.count(node)?;
            let Expr::Literal(literal) = &node.expr else {
                return Err(self.unsupported(node, "an element of a list that is not a literal"));
            };
            read(literal).ok_or_else(|| {
                let text = format!("the elements after `in` must be of the type {wanted}");
                self.at(node, Reason::Types(text))
            })
        };
        list.elements.iter().map(read).collect()
    }

    fn bool(&mut self, node: &IdedExpr, sign: &str) -> Checked<Bool> {
        match self.tree(node)? {
            Tree::Bool(tree) => Ok(tree),
            other => Err(self.wanted(node, sign, Type::Bool, &other)),
        }
    }

    fn count(&mut self, node: &IdedExpr) -> Checked<()> {
        self.nodes += 1;
        if self.nodes > MAX_NODES { Err(self.at(node, Reason::TooManyNodes)) } else { Ok(()) }
    }

    fn note(&mut self, node: &IdedExpr, literal: Value) {
        let position = self.position(node);
        self.literals.extend(position.map(|position| (literal, position)));
    }

    fn position(&self, node: &IdedExpr) -> Option<Position> {
        let (start, _) = self.info.offset_for(node.id)?;
        Some(Position::at(&self.info.source, start as usize))
    }

    fn at(&self, node: &IdedExpr, reason: Reason) -> ExpressionError {
        reason.at(self.position(node))
    }

    fn unsupported(&self, node: &IdedExpr, what: &str) -> ExpressionError {
        self.at(node, Reason::Unsupported(what.to_owned()))
    }

    /// A function call, or an operator that is not in the subset.
    fn no_operator(&self, node: &IdedExpr, name: &str) -> ExpressionError {
        match name {
            operators::INDEX | operators::OPT_INDEX => self.unsupported(node, "an index"),
            _ => self.unsupported(node, &format!("the function {name:?}")),
        }
    }

    fn wanted(&self, node: &IdedExpr, sign: &str, wanted: Type, found: &Tree) -> ExpressionError {
        let text = format!("`{sign}` is for {wanted}, not for {}", found.result_type());
        self.at(node, Reason::Types(text))
    }

    fn no_overload(
        &self,
        node: &IdedExpr,
        name: &str,
        left: &Tree,
        right: &Tree,
    ) -> ExpressionError {
        let (sign, left, right) = (name.trim_matches('_'), left.result_type(), right.result_type());
        let takes = match comparison(name) {
            Some(Comparison::Equal | Comparison::NotEqual) => "compares two values of one type",
            Some(_) => "compares two ints or two strings",
            None => "takes two ints",
        };
        self.at(node, Reason::Types(format!("`{sign}` {takes}, not {left} and {right}")))
    }
}

fn comparison(name: &str) -> Option<Comparison> {
    Some(match name {
        operators::EQUALS => Comparison::Equal,
        operators::NOT_EQUALS => Comparison::NotEqual,
        operators::LESS => Comparison::Less,
        operators::LESS_EQUALS => Comparison::LessOrEqual,
        operators::GREATER => Comparison::Greater,
        operators::GREATER_EQUALS => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

fn operation(name: &str) -> Option<Operation> {
    Some(match name {
        operators::ADD => Operation::Add,
        operators::SUBSTRACT => Operation::Subtract,
        operators::MULTIPLY => Operation::Multiply,
        operators::DIVIDE => Operation::Divide,
        operators::MODULO => Operation::Remainder,
        _ => return None,
    })
}

fn bool_literal(literal: &LiteralValue) -> Option<bool> {
    if let LiteralValue::Boolean(value) = literal { Some(*value.inner()) } else { None }
}

fn int_literal(literal: &LiteralValue) -> Option<i64> {
    if let LiteralValue::Int(value) = literal { Some(*value.inner()) } else { None }
}

fn string_literal(literal: &LiteralValue) -> Option<String> {
    if let LiteralValue::String(text) = literal { Some(text.inner().to_owned()) } else { None }
}
