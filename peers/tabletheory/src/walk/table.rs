//! A table of one item, which evaluates expressions as DynamoDB does.

use crate::request::RequestExpressions;
use std::cmp::Ordering;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb::service::Item;

/// The item, if there is one.
#[derive(Debug, Default)]
pub(super) struct SimulatedTable(pub(super) Option<Item>);

impl SimulatedTable {
    pub(super) fn holds(&self, asked: &RequestExpressions) -> bool {
        let text = asked.condition.replace('(', " ( ").replace(')', " ) ").replace(',', " ");
        let mut words: Vec<&str> = text.split_whitespace().rev().collect();
        let holds = ConditionWords { words: &mut words, asked, item: self.0.as_ref() }.any();
        assert!(words.is_empty(), "{}", asked.condition);
        holds
    }

    /// Its attributes are set and removed.
    pub(super) fn update(&mut self, asked: &RequestExpressions) {
        let text = asked.update.as_ref().unwrap();
        let (set, remove) = text.split_once(" REMOVE ").unwrap_or((text, ""));
        let item = self.0.as_mut().unwrap();
        for assignment in set.strip_prefix("SET ").unwrap().split(", ") {
            let (name, value) = assignment.split_once(" = ").unwrap();
            item.insert(asked.names[name].clone(), asked.values[value].clone());
        }
        for name in remove.split(", ").filter(|name| !name.is_empty()) {
            item.remove(&asked.names[name]);
        }
    }
}

/// The words of a condition that are still to be read, the next one last.
struct ConditionWords<'c, 'w> {
    words: &'w mut Vec<&'c str>,
    asked: &'c RequestExpressions,
    item: Option<&'c Item>,
}

impl<'c> ConditionWords<'c, '_> {
    fn any(&mut self) -> bool {
        let mut holds = self.all();
        while self.words.pop_if(|word| *word == "OR").is_some() {
            holds |= self.all();
        }
        holds
    }

    fn all(&mut self) -> bool {
        let mut holds = self.one();
        while self.words.pop_if(|word| *word == "AND").is_some() {
            holds &= self.one();
        }
        holds
    }

    fn one(&mut self) -> bool {
        match self.word() {
            "(" => {
                let holds = self.any();
                assert_eq!(self.word(), ")");
                holds
            }
            "attribute_not_exists" => self.argument(|condition| condition.attribute().is_none()),
            "attribute_type" => self.argument(|condition| {
                let is_text = matches!(condition.attribute(), Some(AttributeValue::S(_)));
                assert_eq!(condition.asked.values[condition.word()], AttributeValue::S("S".to_owned()));
                is_text
            }),
            name => {
                let (attribute, sign, value) = (self.named(name), self.word(), self.word());
                let order = attribute.and_then(|attribute| compared(attribute, &self.asked.values[value]));
                // What is missing, or of another type, satisfies nothing.
                order.is_some_and(|order| match sign {
                    "=" => order.is_eq(),
                    "<=" => order.is_le(),
                    ">" => order.is_gt(),
                    _ => panic!("{sign}"),
                })
            }
        }
    }

    fn argument(&mut self, holds: impl Fn(&mut Self) -> bool) -> bool {
        assert_eq!(self.word(), "(");
        let holds = holds(self);
        assert_eq!(self.word(), ")");
        holds
    }

    fn attribute(&mut self) -> Option<&'c AttributeValue> {
        let name = self.word();
        self.named(name)
    }

    fn named(&self, name: &str) -> Option<&'c AttributeValue> {
        self.item.and_then(|item| item.get(&self.asked.names[name]))
    }

    fn word(&mut self) -> &'c str {
        self.words.pop().unwrap()
    }
}

fn compared(left: &AttributeValue, right: &AttributeValue) -> Option<Ordering> {
    match (left, right) {
        (AttributeValue::S(left), AttributeValue::S(right)) => Some(left.cmp(right)),
        (AttributeValue::N(left), AttributeValue::N(right)) => {
            Some(left.parse::<i64>().unwrap().cmp(&right.parse().unwrap()))
        }
        _ => None,
    }
}
