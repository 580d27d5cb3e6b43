-- Deletes a task.
forget()
return 'ok'
