"""The studio: fit and correct models of a folder of recordings in the browser.

A local web application for one person. It runs shell commands and records them in a script.
"""
