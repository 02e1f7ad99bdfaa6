from backend.ledger.annotations import *
from backend.ledger.annotations import Annotation, put, delete, of_task, tasks, forget_task
