"""The sections of suite.yaml as typed models; gavel.suite reads the file."""
