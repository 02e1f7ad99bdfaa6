"""Annotation: a job becomes a plan, the plan's models are asked, and the rounds become a prediction.

``annotator`` takes these steps in order, ``job_queue`` runs jobs, and ``recording`` stores their rounds.
"""
