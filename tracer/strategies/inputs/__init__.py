"""Who sees which example: data sets, their cut into replicas' batches, their split over workers."""
