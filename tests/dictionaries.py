"""Data dictionaries that several tests share."""

REDCAP = """\
"Variable / Field Name","Form Name","Field Type","Choices, Calculations, OR Slider Labels",\
"Text Validation Type OR Show Slider Number","Text Validation Min","Text Validation Max",Identifier?,\
"Branching Logic (Show field only if...)","Required Field?"
record_id,demographics,text,,,,,,,
name,demographics,text,,,,,y,,
sex,demographics,radio,"1, Male | 2, <b>Female</b> | 3, Diverse, other",,,,,,y
age,demographics,text,,integer,18,110,,,y
birth,demographics,text,,date_dmy,1900-01-01,today,,,
symptoms,baseline,checkbox,"0, Cough | -9, None",,,,,,
smoker,baseline,yesno,,,,,,[age] > 18,y
crea,baseline,text,,number_2dp,0,20,,,
weight,baseline,text,,number_1dp_comma_decimal,"0,5",300,,,
arrived,baseline,text,,time,,,,,
hint,baseline,descriptive,,,,,,,
seen,baseline,text,,datetime_seconds_ymd,,,,,
comments,baseline,notes,,,,,,,
"""

FRICTIONLESS = {
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "sex", "type": "integer", "categories": [{"value": 1, "label": "male"}, {"value": 2, "label": "female"}]},
        {"name": "stage", "type": "string", "categories": ["I", "II"], "categoriesOrdered": True, "constraints": {"required": True}},
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}},
        {"name": "seen", "type": "date", "format": "%d.%m.%Y"},
        {"name": "x", "type": "number", "decimalChar": ","},
        {"name": "ok", "type": "boolean", "trueValues": ["ja"], "falseValues": ["nein"]},
        {"name": "note", "type": "object"},
    ],
    "missingValues": ["", "NA"],
    "primaryKey": "id",
}  # fmt: skip
CSVW = {
    "@context": "http://www.w3.org/ns/csvw",
    "dialect": {"delimiter": ";", "encoding": "windows-1252"},
    "tableSchema": {
        "primaryKey": "id",
        "columns": [
            {"name": "id", "titles": "Patient"},
            {"name": "age", "datatype": {"base": "integer", "minimum": "0", "maximum": "120"}, "required": True},
            {"name": "seen", "titles": ["Aufnahme"], "datatype": {"base": "date", "format": "dd.MM.yyyy"}, "null": ["-"]},
            {"name": "ok", "datatype": {"base": "boolean", "format": "J|N"}},
            {"name": "w", "datatype": {"base": "decimal", "format": {"decimalChar": ","}}},
        ],
    },
}  # fmt: skip
