"""The DistTest: model, parsing, schema, cross-field rules, pod template, names and labels."""
