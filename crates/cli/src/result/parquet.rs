//! A result as Parquet: the same columns as in CSV, with types.

use std::sync::Arc;

use anyhow::{Context, Result};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use sotto_client::QueryResult;
use sotto_client::query_result::{Cells, Column, FORMAT};

/// The longest JSON that a file has in its metadata. Readers load all metadata before the first row,
/// and refuse more than some size (Arrow's: 100 MB, which a million coordinates exceed).
const MAX_JSON: usize = 4 * 1024 * 1024;

/// The file. All columns are optional; what there is not is null.
pub(super) fn encoded(result: &QueryResult) -> Result<Vec<u8>> {
    let table = result.table();
    let schema = Arc::new(parse_message_type(&schema(&table))?);
    let mut origin = vec![KeyValue::new("schema".to_owned(), FORMAT.to_owned())];
    let json = Some(result.to_json()).filter(|json| json.len() <= MAX_JSON);
    origin.extend(json.map(|json| KeyValue::new("result".to_owned(), json)));
    let properties = WriterProperties::builder().set_key_value_metadata(Some(origin)).build();
    let mut file = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut file, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for column in &table {
        let mut into = group.next_column()?.context("a column for each of the table")?;
        match (into.untyped(), &column.cells) {
            (ColumnWriter::ByteArrayColumnWriter(to), Cells::Text(cells)) => {
                let values = present(cells, |text| ByteArray::from(text.as_str()));
                to.write_batch(&values, Some(&levels(cells)), None)?
            }
            (ColumnWriter::DoubleColumnWriter(to), Cells::Number(cells)) => {
                to.write_batch(&present(cells, |number| *number), Some(&levels(cells)), None)?
            }
            (ColumnWriter::Int64ColumnWriter(to), Cells::Whole(cells)) => {
                let values = present(cells, |whole| *whole as i64);
                to.write_batch(&values, Some(&levels(cells)), None)?
            }
            _ => anyhow::bail!("the column {} has another type than its cells", column.name),
        };
        into.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(file)
}

fn schema(table: &[Column]) -> String {
    let fields = table.iter().map(|column| match column.cells {
        Cells::Text(_) => format!("optional binary {} (UTF8);", column.name),
        Cells::Number(_) => format!("optional double {};", column.name),
        Cells::Whole(_) => format!("optional int64 {} (INTEGER(64,false));", column.name),
    });
    format!("message result {{ {} }}", fields.collect::<String>())
}

fn present<T, U>(cells: &[Option<T>], value: impl Fn(&T) -> U) -> Vec<U> {
    cells.iter().flatten().map(value).collect()
}

/// 1 where there is a value.
fn levels<T>(cells: &[Option<T>]) -> Vec<i16> {
    cells.iter().map(|cell| i16::from(cell.is_some())).collect()
}
