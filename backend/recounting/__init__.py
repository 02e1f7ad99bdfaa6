"""Recounting: kept votes are counted again by what is known now, and Label Studio shows the new labels.

``counting`` decides the rounds of a question again, ``recording`` stores what changed in one transaction,
``delivery`` replaces the predictions in Label Studio, ``recounter`` does this for a project on demand, and
``automatic`` does it when it is worth it.
"""
