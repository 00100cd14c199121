"""The studio: from a folder of recordings to a corrected model, in the browser.

A local web application for one person. It runs the commands of the shell and writes them down.
"""
