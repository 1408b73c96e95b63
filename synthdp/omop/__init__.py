"""OMOP's common data model, 5.4: a CDM is read as linked tables, written from them, and checked by the names of OHDSI's
DataQualityDashboard."""
