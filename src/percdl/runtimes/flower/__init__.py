"""Flower as the carrier of messages between a coordinator and its sites."""
