"""What every room needs: errors, paths, numbers and texts to be shown, files read and kept."""
